// The layout of the structs that Python passes, which must equal models/cpu_backend/abi.py: with
// another one the kernels would read invalid addresses. Increase ABI_VERSION after every change of
// these structs, of the meaning of their fields, or of a function's arguments.

#pragma once

#include <cstdint>

#ifndef ABI_VERSION
#define ABI_VERSION 4
#endif

// By index: the version, the sizes of the structs, then -1.
template <typename... Structs>
int64_t abi(int64_t index) {
  constexpr int64_t numbers[] = {ABI_VERSION, static_cast<int64_t>(sizeof(Structs))...};
  return index < static_cast<int64_t>(1 + sizeof...(Structs)) ? numbers[index] : -1;
}
