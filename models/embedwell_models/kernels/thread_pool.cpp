// The threads on which the kernels compute. A team is the calling thread and some workers, which
// are started when a team first needs them, and sleep when there has been no team for a while. Each
// worker waits for a number of its own, the size of its team, and sets it to 0 when it is done. A
// team ends when all are 0, so no worker that wakes late finds the function of one team and the
// size of another.

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <mutex>
#include <new>
#include <thread>

#include "abi.h"
#include "waitable_number.h"

namespace {

using Function = void (*)(void*);

thread_local unsigned team = 0;  // the size of the team that the calling thread is in, or 0

// Runs a function as one of `size` threads.
void join(Function function, void* data, unsigned size) {
  const unsigned before = team;
  team = size;
  function(data);
  team = before;
}

class Pool {
 public:
  // Teams of several threads come one after another. The team is smaller if the system starts no
  // more threads.
  void run(Function function, void* data, unsigned count) {
    const std::lock_guard<std::mutex> turn(turn_);
    const unsigned wanted = std::min(count - 1, MOST);
    if (started_ < wanted) start(wanted);
    const unsigned workers = std::min(started_, wanted), size = workers + 1;
    function_ = function;
    data_ = data;
    for (unsigned i = 0; i < workers; i++) sizes_[i].set(size);
    join(function, data, size);
    for (unsigned i = 0; i < workers; i++) sizes_[i].wait_while(size);
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
      join(function_, data_, size);
    }
  }

  std::mutex turn_;
  unsigned started_ = 0;
  Function function_ = nullptr;
  void* data_ = nullptr;
  WaitableNumber sizes_[MOST];  // of the team that each worker is in, or 0
};

Pool pool;  // never destroyed, because workers outlive main()

// A fork copies neither the workers nor the thread that may hold the mutex.
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, [] { new (&pool) Pool; });

}  // namespace

extern "C" {

int64_t threads_abi(int64_t index) { return abi<>(index); }

// Calls function(data) on up to `count` threads at once, and waits for them. A thread that is in a
// team already calls it alone.
void run_team(Function function, void* data, unsigned count) {
  if (count <= 1 || team)
    join(function, data, 1);
  else
    pool.run(function, data, count);
}

// Returns the number of threads that run the function that calls this.
int team_size() { return static_cast<int>(team); }
}
