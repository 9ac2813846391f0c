// Consecutive numbers: columns, heads, rows or keys.

#pragma once

struct Range {
  long first, last;  // one after the last
};
