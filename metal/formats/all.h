// Every format.
#pragma once
#include "floats.h"
#include "fp4.h"
#include "iq4.h"
#include "iq_grids.h"
#include "k_nibbles.h"
#include "nibbles.h"
#include "q2_k.h"
#include "q3_k.h"
#include "q6_k.h"
#include "q8_0.h"
#include "ternary.h"
