// Threads that compute one thing together, and wait for each other between its steps.

#pragma once

#include <immintrin.h>
#include <sched.h>

#include <atomic>

#include "range.h"

// GNU OpenMP's entries: run a function on a number of threads, and how many there are. They are
// those of the caller's own runtime, so that there is one pool of threads.
using Parallel = void (*)(void (*)(void*), void*, unsigned, unsigned);
using Threads = int (*)();

constexpr long FEW = 64;  // rows for each thread: below, weights are better read once for all

class Barrier {
 public:
  void wait(long size) {
    const long round = round_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size) {
      arrived_.store(0, std::memory_order_relaxed);
      round_.store(round + 1, std::memory_order_release);
      return;
    }
    // A thread that is late by much has lost its processor, perhaps to us.
    for (long spins = 0; round_.load(std::memory_order_acquire) == round; spins++)
      if (spins < 4000)
        _mm_pause();
      else
        sched_yield();
  }

 private:
  std::atomic<long> arrived_{0};
  alignas(64) std::atomic<long> round_{0};
};

// One of `size` threads.
struct Member {
  long rank, size;
  Barrier* barrier;

  void wait() const {
    if (size > 1) barrier->wait(size);
  }
  Range share(long count) const { return {rank * count / size, (rank + 1) * count / size}; }
};
