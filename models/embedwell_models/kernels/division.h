// How a call is divided among threads, without computing it, for benchmarks/cores.py.

#pragma once

#include "plan.h"

namespace {

// Numbers of a call in float32. A balance is the work of the busiest thread over the mean.
struct Division {
  double threads;              // that compute
  double bytes;                // of their working memory
  double products, attention;  // balances of a layer
};

// The work of the busiest thread of each step, which ends when all threads have done theirs.
struct Steps {
  double busiest = 0, mean = 0;

  template <typename Work>
  void add(long threads, Work&& work) {
    double most = 0, total = 0;
    for (long rank = 0; rank < threads; rank++) {
      const double mine = static_cast<double>(work(Member{rank, threads, nullptr}));
      most = std::max(most, mine);
      total += mine;
    }
    busiest += most;
    mean += total / static_cast<double>(threads);
  }
  double balance() const { return mean ? busiest / mean : 1.0; }
};

inline long product_work(const Member& me, long rows, long columns) {
  long total = 0;
  for (Portions mine(rows, columns / COLUMNS, me); mine.next();)
    total += (mine.rows.last - mine.rows.first) * (mine.units.last - mine.units.first);
  return total;
}

inline double product_balance(const KernelConfig& config, long rows, long threads) {
  Steps steps;
  if (Member{0, threads, nullptr}.owns_rows(rows)) {
    steps.add(threads, [&](const Member& me) {
      const Range mine = me.share(rows);
      return mine.last - mine.first;
    });
    return steps.balance();
  }
  const long size = config.heads.size, width = config.hidden_size, inner = config.intermediate_size;
  const long keys = config.heads.kv_count * size;
  for (const long columns : {config.heads.width(), keys, keys})
    steps.add(threads, [&](const Member& me) { return width * product_work(me, rows, columns); });
  steps.add(threads,
            [&](const Member& me) { return config.heads.width() * product_work(me, rows, width); });
  steps.add(threads, [&](const Member& me) {
    return width * product_work(me, rows, (config.gated ? 2 : 1) * inner);
  });
  steps.add(threads, [&](const Member& me) { return inner * product_work(me, rows, width); });
  return steps.balance();
}

// Of layers without windows.
inline double attention_balance(const ForwardCall& call, long threads) {
  const KernelConfig& config = *call.config;
  std::vector<AttentionCost> costs;
  long total = 0;
  for (long i = 0; i < call.num_sequences; i++) {
    const long length = call.lengths[i];
    costs.emplace_back(AttentionMask{length, length, config.causal != 0}, Range{0, length});
    total += costs.back().total() * config.heads.count;
  }
  Steps steps;
  steps.add(threads, [&](const Member& me) {
    Range mine = me.share(total);
    long work = 0;
    for (long key = 0; key < config.heads.kv_count; key++)
      for (const AttentionCost& cost : costs)
        for (long head = 0; head < config.heads.shared(); head++) {
          work += cost.of(cost.queries(mine));
          mine = {mine.first - cost.total(), mine.last - cost.total()};
        }
    return work;
  });
  return steps.balance();
}

// All threads take parts of their own.
inline double apart_balance(const Plan& plan, long count) {
  long tokens = 0;
  for (const Part& part : plan.parts) tokens += part.tokens;
  return static_cast<double>(busiest(plan.parts, count) * count) / static_cast<double>(tokens);
}

template <typename Kind>
Division divide(const ForwardCall& call, long count) {
  const Plan plan = ::plan(call, count);
  Arena arena;
  long bytes = 0;
  if (plan.together) {
    const PartShape shape = plan.parts[0].shape(call, plan.threads);
    bytes = arena.size<TeamMemory<Kind>>(*call.config, shape) +
            plan.threads * arena.size<ThreadMemory<Kind>>(*call.config, shape);
  } else {
    long most = 0;
    for (const Part& part : plan.parts) {
      const PartShape shape = part.shape(call, 1);
      most = std::max(most, arena.size<TeamMemory<Kind>>(*call.config, shape) +
                                arena.size<ThreadMemory<Kind>>(*call.config, shape));
    }
    bytes = most * plan.threads;
  }
  const double apart = plan.together ? 0 : apart_balance(plan, plan.threads);
  return {static_cast<double>(plan.threads), static_cast<double>(bytes),
          apart ? apart : product_balance(*call.config, plan.parts[0].tokens, plan.threads),
          apart ? apart : attention_balance(call, plan.threads)};
}

}  // namespace
