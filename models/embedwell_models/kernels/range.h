// A range of columns, heads, rows or keys.

#pragma once

struct Range {
  long first, last;  // last is exclusive
};
