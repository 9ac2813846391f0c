// The layout of what Python hands to the kernels, which must be that of models/cpu_backend/abi.py: a library
// of another one would read wild addresses. ABI is one more after each change of these structs, of
// what their fields mean, or of a function's arguments.

#pragma once

#include <cstdint>

#ifndef ABI
#define ABI 1
#endif

// By index: the number, the structs' sizes, then -1.
template <typename... Structs>
int64_t abi(int64_t index) {
  constexpr int64_t numbers[] = {ABI, static_cast<int64_t>(sizeof(Structs))...};
  return index < static_cast<int64_t>(1 + sizeof...(Structs)) ? numbers[index] : -1;
}
