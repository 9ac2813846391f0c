// The threads on which the kernels compute. A team is the calling thread and some workers, which
// are started when a team first needs them, and sleep when there has been no team for a while. Each
// worker waits for a number of its own, the size of its team, and sets it to 0 when it is done. A
// team ends when all are 0, so no worker that wakes late finds the function of one team and the
// size of another.

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <exception>
#include <mutex>
#include <new>
#include <thread>

#include "abi.h"
#include "waitable_number.h"

namespace {

using Function = void (*)(void*);

// The size of a team, and nanoseconds: from its start to its end, and for which its threads had a
// processor.
struct TeamTimes {
  int64_t size, elapsed, computed;
};

thread_local unsigned team = 0;  // the size of the team that the calling thread is in, or 0
thread_local TeamTimes last{};   // of the last team that the calling thread started

int64_t nanoseconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return time.tv_sec * int64_t{1000000000} + time.tv_nsec;
}

// Runs a function as one of `size` threads. Returns the nanoseconds for which it had a processor.
int64_t join(Function function, void* data, unsigned size) {
  const unsigned before = team;
  const int64_t start = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
  team = size;
  function(data);
  team = before;
  return nanoseconds(CLOCK_THREAD_CPUTIME_ID) - start;
}

TeamTimes run_alone(Function function, void* data) {
  const int64_t begun = nanoseconds(CLOCK_MONOTONIC), computed = join(function, data, 1);
  return {1, nanoseconds(CLOCK_MONOTONIC) - begun, computed};
}

class Pool {
 public:
  // Teams of several threads come one after another. The team is smaller if the system starts no
  // more threads.
  TeamTimes run(Function function, void* data, unsigned count) {
    const std::lock_guard<std::mutex> turn(turn_);
    const int64_t begun = nanoseconds(CLOCK_MONOTONIC);
    const unsigned wanted = std::min(count - 1, MOST);
    if (started_ < wanted) start(wanted);
    const unsigned workers = std::min(started_, wanted), size = workers + 1;
    function_ = function;
    data_ = data;
    computed_ = 0;
    for (unsigned i = 0; i < workers; i++) sizes_[i].set(size);
    const int64_t mine = join(function, data, size);
    for (unsigned i = 0; i < workers; i++) sizes_[i].wait_while(size);
    return {size, nanoseconds(CLOCK_MONOTONIC) - begun, computed_ + mine};
  }

 private:
  static constexpr unsigned MOST = 255;  // workers

  void start(unsigned count) {
    // Signals are for the threads of the program. Not pthread_sigmask, which does the same, but
    // which a newer C library has under a name that those before 2.32 lack.
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    try {
      for (; started_ < count; started_++) std::thread(&Pool::serve, this, started_).detach();
    } catch (const std::exception&) {  // no memory, or a limit on threads
    }
    sigprocmask(SIG_SETMASK, &before, nullptr);
  }

  void serve(unsigned index) {
    char name[16];
    std::snprintf(name, sizeof name, "kernels %u", index + 1);
    name_thread(name);
    for (WaitableNumber& own_size = sizes_[index];; own_size.set(0)) {
      const unsigned size = own_size.wait_while(0);
      computed_ += join(function_, data_, size);
    }
  }

  std::mutex turn_;
  unsigned started_ = 0;
  Function function_ = nullptr;
  void* data_ = nullptr;
  std::atomic<int64_t> computed_{0};
  WaitableNumber sizes_[MOST];  // of the team that each worker is in, or 0
};

Pool pool;  // never destroyed, because workers outlive main()

// A fork copies neither the workers nor the thread that may hold the mutex.
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, [] { new (&pool) Pool; });

}  // namespace

extern "C" {

int64_t threads_abi(int64_t index) { return abi<TeamTimes>(index); }

// Calls function(data) on up to `count` threads at once, and waits for them. A thread that is in a
// team already calls it alone.
void run_team(Function function, void* data, unsigned count) {
  last = count <= 1 || team ? run_alone(function, data) : pool.run(function, data, count);
}

// Returns the times of the last team that the calling thread started.
const TeamTimes* last_team() { return &last; }

// Returns the number of threads that run the function that calls this.
int team_size() { return static_cast<int>(team); }
}
