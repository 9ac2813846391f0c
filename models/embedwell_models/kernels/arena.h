// Arenas: memory that a thread reuses from call to call, handed out in pieces.

#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <utility>

constexpr long round_up(long n, long step) { return (n + step - 1) / step * step; }

class Arena {
 public:
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena() { release(); }

  // Frees the memory; returns its bytes.
  long release() {
    std::free(memory_);
    memory_ = nullptr;
    return std::exchange(size_, 0);
  }
  // Reserves memory for a T, and returns whether there was enough; invalidates earlier pieces.
  template <typename T, typename... Arguments>
  bool reserve(const Arguments&... arguments) {
    used_ = size<T>(arguments...);
    // The memory of an unusually long text is freed.
    const bool vast = size_ > VAST && used_ < size_ / 8;
    return (used_ <= size_ && !vast) || allocate();
  }
  // The bytes of a T; invalidates earlier pieces.
  template <typename T, typename... Arguments>
  long size(const Arguments&... arguments) {
    used_ = 0;
    T measured(*this, arguments...);
    return used_;
  }
  // A T whose constructor takes pieces.
  template <typename T, typename... Arguments>
  T lay_out(const Arguments&... arguments) {
    used_ = 0;
    return T(*this, arguments...);
  }
  template <typename T>
  T* take(long count) {
    char* piece = memory_ + used_;
    used_ += round_up(count * static_cast<long>(sizeof(T)), 64);
    return reinterpret_cast<T*>(piece);
  }

 private:
  static constexpr long HUGE_PAGE = 2 << 20, VAST = 256 << 20;

  bool allocate() {
    release();
    size_ = round_up(used_, HUGE_PAGE);
    memory_ = static_cast<char*>(std::aligned_alloc(HUGE_PAGE, size_));
    if (!memory_) {
      size_ = 0;
      return false;
    }
#ifdef MADV_HUGEPAGE  // of Linux: fewer TLB misses
    madvise(memory_, size_, MADV_HUGEPAGE);
#endif
    return true;
  }

  char* memory_ = nullptr;
  long size_ = 0, used_ = 0;
};

// The arenas of a thread, in every precision: of its steps, of rows that are its own, and of rows
// that it shares with the rest of its team.
struct Scratch {
  Arena steps, rows, shared;

  long release() { return steps.release() + rows.release() + shared.release(); }
};
[[gnu::visibility("hidden")]] inline thread_local Scratch scratch;
