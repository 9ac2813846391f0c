// A number for which threads wait, and the names of threads, by the operating system.

#pragma once

#include <atomic>
#include <climits>

#if defined(__linux__) && !defined(WITHOUT_FUTEX)
#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#else
#include <pthread.h>
#endif

#include "relax.h"

#if defined(__linux__) && !defined(WITHOUT_FUTEX)
inline void name_thread(const char* name) { prctl(PR_SET_NAME, name); }

// Where threads sleep while a number is what it was.
class WaitQueue {
 public:
  void sleep_while(std::atomic<unsigned>& number, unsigned old) {
    while (number.load() == old) futex(number, FUTEX_WAIT_PRIVATE, old);
  }
  void wake(std::atomic<unsigned>& number) { futex(number, FUTEX_WAKE_PRIVATE, INT_MAX); }

 private:
  static void futex(std::atomic<unsigned>& word, int operation, unsigned number) {
    syscall(SYS_futex, &word, operation, number, nullptr, nullptr, 0);
  }
};
#else
inline void name_thread([[maybe_unused]] const char* name) {
#ifdef __APPLE__
  pthread_setname_np(name);
#endif
}

// Of C's types, which no destructor waits for: at the end of a process, threads still sleep here.
class WaitQueue {
 public:
  void sleep_while(std::atomic<unsigned>& number, unsigned old) {
    pthread_mutex_lock(&mutex_);
    while (number.load() == old) pthread_cond_wait(&changed_, &mutex_);
    pthread_mutex_unlock(&mutex_);
  }
  void wake(std::atomic<unsigned>&) {
    pthread_mutex_lock(&mutex_);  // the sleeper has yet to look, or sleeps already
    pthread_cond_broadcast(&changed_);
    pthread_mutex_unlock(&mutex_);
  }

 private:
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t changed_ = PTHREAD_COND_INITIALIZER;
};
#endif

// A number for which threads wait, and which another thread sets.
class WaitableNumber {
 public:
  unsigned now() const { return number_.load(std::memory_order_acquire); }
  unsigned wait_while(unsigned old) {
    for (int spins = 0; spins < SPINS; spins++) {
      if (const unsigned number = now(); number != old) return number;
      relax();
    }
    return sleep_while(old);
  }
  unsigned sleep_while(unsigned old) {
    sleepers_++;  // a count, because the sleeper before may not have left yet
    queue_.sleep_while(number_, old);
    sleepers_--;
    return number_.load();
  }
  // Either this thread sees a sleeper, or the sleeper sees the new number, as both are ordered.
  void set(unsigned number) {
    number_.store(number);
    if (sleepers_.load()) queue_.wake(number_);
  }

 private:
  static constexpr int SPINS = 3000;  // pauses: 0.1 ms or so, to wake at once without hogging

  alignas(64) std::atomic<unsigned> number_{0};
  std::atomic<unsigned> sleepers_{0};
  WaitQueue queue_;
};
