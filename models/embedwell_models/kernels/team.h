// A team of threads that compute together, with a barrier between steps.

#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#include "types.h"
#include "waitable_number.h"

// Functions of thread_pool.cpp that run a function on up to a number of threads, and return their
// number. They are in a library of their own, so that every instruction set has the same threads.
using Parallel = void (*)(void (*)(void*), void*, unsigned);
using Threads = int (*)();

// Rows per thread; with fewer, sharing each weight read is faster, for texts that threads could
// have for themselves, or for the rows of texts that they share.
constexpr long MIN_ROWS = 64, MIN_OWN_ROWS = 128;

#ifdef __linux__
// The processors of the threads of a team. The system may wake a thread on the processor of another
// thread of the team although a processor is idle, because a halted processor of a virtual machine
// looks taken. Both threads would stay there for milliseconds and wait for each other.
class Processors {
 public:
  void record(long rank) {
    const int mine = current();
    if (rank < MOST && taken_[rank].load(std::memory_order_relaxed) != mine)
      taken_[rank].store(mine, std::memory_order_relaxed);
  }
  // Moves from a processor that another thread of the team needs to a free processor.
  void leave_shared(long rank, long size) {
    cpu_set_t allowed, free;
    if (!shared(rank, size) || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    free = allowed;
    for (long other = 0; other < std::min(size, MOST); other++)
      if (const int taken = taken_[other]) CPU_CLR(taken - 1, &free);
    if (CPU_COUNT(&free) == 0 || sched_setaffinity(0, sizeof free, &free) != 0) return;
    sched_setaffinity(0, sizeof allowed, &allowed);
    record(rank);
  }

 private:
  static constexpr long MOST = 256;

  static int current() { return sched_getcpu() + 1; }

  bool shared(long rank, long size) const {
    const int mine = current();
    for (long other = 0; other < std::min(size, MOST); other++)
      if (other != rank && taken_[other].load(std::memory_order_relaxed) == mine) return true;
    return false;
  }

  std::atomic<int> taken_[MOST] = {};  // processors from 1 on; 0 if unknown
};
#else
struct Processors {  // where threads cannot choose their processors
  void record(long) {}
  void leave_shared(long, long) {}
};
#endif

// A thread waits awake at first, because sleep and the call that ends it take longer than most
// waits. Then it offers its processor to other threads, and sleeps if one of them keeps it.
class Barrier {
 public:
  void wait(long rank, long size) {
    const unsigned round = round_.now();
    processors_.record(rank);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size) {
      arrived_.store(0, std::memory_order_relaxed);
      round_.set(round + 1);
    } else if (!ends_while_awake(round, rank, size)) {
      round_.sleep_while(round);
    }
  }

 private:
  using Clock = std::chrono::steady_clock;

  // Pauses; LATE is mostly more than the shares differ by.
  static constexpr long UNEVEN = 300, LATE = 1000;
  static constexpr long YIELDS = 1000;
  static constexpr std::chrono::microseconds KEPT{500};  // by another thread

  bool ends_while_awake(unsigned round, long rank, long size) {
    for (long spins = 0; spins < LATE; spins++) {
      if (round_.now() != round) return true;
      if (spins == UNEVEN) processors_.leave_shared(rank, size);
      relax();
    }
    Clock::time_point begun, now = Clock::now();
    for (long yields = 0; yields < YIELDS && round_.now() == round; yields++) {
      begun = now;
      sched_yield();
      if ((now = Clock::now()) - begun > KEPT) break;
    }
    return round_.now() != round;
  }

  std::atomic<long> arrived_{0};
  WaitableNumber round_;
  alignas(64) Processors processors_;
};

// One of `size` threads.
struct Member {
  long rank, size;
  Barrier* barrier;

  void wait() const {
    if (size > 1) barrier->wait(rank, size);
  }
  Range share(long count) const { return {rank * count / size, (rank + 1) * count / size}; }
  // Whether each thread computes rows of its own. Otherwise all threads share each product.
  bool owns_rows(long rows) const { return size == 1 || rows >= MIN_OWN_ROWS * size; }
};
