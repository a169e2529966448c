// FERRULE_CONSTANT: how constants outside functions are declared where C++ and Metal share them; Metal keeps them in an
// address space of their own.
#pragma once

#ifdef __METAL_VERSION__
#define FERRULE_CONSTANT constant constexpr
#else
#define FERRULE_CONSTANT inline constexpr
#endif
