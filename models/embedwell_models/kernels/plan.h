// Division of the sequences of a call among threads.

#pragma once

#include <algorithm>
#include <vector>

#include "working_memory.h"

namespace {

// Consecutive sequences of a call.
struct Part {
  long first, last, offset, tokens, longest;

  PartShape shape(const ForwardCall& call, long threads) const {
    const bool by_rows = Member{0, threads, nullptr}.owns_rows(tokens);
    return {tokens, last - first, longest, threads, call.num_layers > 0, by_rows};
  }
};

// Either all threads share one part, or each thread takes its own parts.
struct Plan {
  std::vector<Part> parts;
  bool together;
  long threads;  // that find something to do
};

Part whole(const ForwardCall& call) {
  Part part{0, call.num_sequences, 0, 0, 0};
  for (long i = 0; i < call.num_sequences; i++) {
    part.tokens += call.lengths[i];
    part.longest = std::max<long>(part.longest, call.lengths[i]);
  }
  return part;
}

// Divides sequences into parts of about `target` tokens.
std::vector<Part> split(const ForwardCall& call, long target) {
  std::vector<Part> parts;
  Part part{0, 0, 0, 0, 0};
  for (long i = 0; i < call.num_sequences; i++) {
    const long length = call.lengths[i];
    if (part.tokens && part.tokens + length / 2 > target) {
      parts.push_back(part);
      part = {i, i, part.offset + part.tokens, 0, 0};
    }
    part.tokens += length;
    part.longest = std::max(part.longest, length);
    part.last = i + 1;
  }
  parts.push_back(part);
  return parts;
}

// Tokens of the busiest thread if each free thread takes the next part.
long busiest(const std::vector<Part>& parts, long threads) {
  std::vector<long> load(threads);
  for (const Part& part : parts) *std::min_element(load.begin(), load.end()) += part.tokens;
  return *std::max_element(load.begin(), load.end());
}

// Tokens of a part that fit a core's own cache. Each expert reads its weights for a few of them:
// with more, it reads them less often.
constexpr long PART_TOKENS = 256, PART_TOKENS_WITH_EXPERTS = 512;

// All threads share a part. In the narrowest product of a few tokens, no thread is idle.
Plan shared(const ForwardCall& call, const Part& all, long threads) {
  const long blocks = (all.tokens + TILE_ROWS - 1) / TILE_ROWS;
  const long units = std::max(1L, blocks * (call.config->hidden_size / COLUMNS));
  return {{all}, true, std::min(threads, units)};
}

Plan plan(const ForwardCall& call, long threads) {
  const Part all = whole(call);
  if (threads > 1 && all.tokens < MIN_ROWS * threads) return shared(call, all, threads);
  const long most = (call.config->experts ? PART_TOKENS_WITH_EXPERTS : PART_TOKENS) * threads;
  const long rounds = std::max(1L, (all.tokens + most - 1) / most);
  Plan apart{split(call, (all.tokens + rounds * threads - 1) / (rounds * threads)), false, threads};
  const bool uneven = busiest(apart.parts, threads) * threads > all.tokens * 5 / 4;
  if (uneven) return shared(call, all, threads);
  apart.threads = std::min<long>(threads, apart.parts.size());
  return apart;
}

}  // namespace
