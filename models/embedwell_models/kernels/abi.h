// Python compares these values before it calls a library: the checksum of the sources that the
// library was compiled from, and the sizes of the structs that are passed, which
// models/embedwell_models/cpu_backend/abi.py also has. With other values the kernels would read
// invalid addresses or wrong fields.

#pragma once

#include <cstdint>

#ifndef SOURCE_CHECKSUM  // hatch_build.py defines it
#error "compile the kernels with: python hatch_build.py"
#endif

// Returns, by index: the checksum, the sizes of the structs, then -1.
template <typename... Structs>
int64_t abi(int64_t index) {
  constexpr int64_t numbers[] = {SOURCE_CHECKSUM, static_cast<int64_t>(sizeof(Structs))...};
  return index < static_cast<int64_t>(1 + sizeof...(Structs)) ? numbers[index] : -1;
}
