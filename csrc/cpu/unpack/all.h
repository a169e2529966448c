// Every quantised weight format that the matmul kernels serve.
#pragma once
#include "q4_0.h"
#include "q4_1.h"
#include "q4_k.h"
#include "q5_0.h"
#include "q5_1.h"
#include "q5_k.h"
#include "q6_k.h"
#include "q8_0.h"
