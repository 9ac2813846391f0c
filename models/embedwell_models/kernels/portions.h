// The portions of a product that a thread of a team computes.

#pragma once

#include <algorithm>

#include "kinds.h"
#include "team.h"

constexpr long BLOCK = 256;  // rows of which a thread computes a layer's steps one after another

// Divides the blocks of TILE_ROWS rows of each COLUMNS columns among the threads, as equally as
// possible. A thread has as few columns as possible, so that few threads read the same weights.
// A portion has up to BLOCK rows.
class Portions {
 public:
  Portions(long count, long units, const Member& me)
      : count_(count),
        blocks_((count + TILE_ROWS - 1) / TILE_ROWS),
        todo_(me.share(blocks_ * units)) {}

  // Goes to the next portion, the first one at first; returns whether there is one.
  bool next() {
    if (rows.last == end_ && !start()) return false;
    rows = {rows.last, std::min(rows.last + BLOCK, end_)};
    return true;
  }

  Range rows{0, 0}, units{0, 0};

 private:
  // Starts with the following rows of a unit, or with units of which all rows are this thread's.
  bool start() {
    const long left = todo_.last - todo_.first;
    if (left == 0) return false;
    const long unit = todo_.first / blocks_, block = todo_.first % blocks_;
    const long whole = block ? 0 : left / blocks_;
    const long end = whole ? blocks_ : std::min(blocks_, block + left);
    units = {unit, unit + std::max(whole, 1L)};
    rows.last = block * TILE_ROWS;
    end_ = std::min(count_, end * TILE_ROWS);
    todo_.first += whole ? whole * blocks_ : end - block;
    return true;
  }

  const long count_, blocks_;
  Range todo_;
  long end_ = 0;
};
