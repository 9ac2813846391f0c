// A pause of a thread in a loop that waits for another thread: some ten nanoseconds.

#pragma once

#ifdef __x86_64__
#include <immintrin.h>

inline void relax() { _mm_pause(); }
#else
inline void relax() { asm volatile("isb"); }  // `yield` does nothing on most processors
#endif
