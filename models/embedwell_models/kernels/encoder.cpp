// The layers of a transformer encoder on the CPU, over packed sequences.
// The order of a text's computation depends only on the text, so its result is bit-identical in
// every batch and on any number of threads. The code is compiled once for each instruction set.
// Values stay in a core's own cache from layer to layer. No headers of libraries are needed.

#ifdef __AMX_TILE__
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "abi.h"
#include "work.h"

namespace {

// A call and its plan: all threads share one part, or each takes its own parts.
template <typename Kind>
struct Run {
  const ForwardCall& call;
  const Plan plan;
  Threads threads;
  const Space<Kind>* together;
  Barrier barrier;
  std::atomic<long> rank{0}, next{0};
  std::atomic<bool> full{false};  // a thread lacked the memory for its part
};

template <typename Kind>
void work(void* data) {
  static thread_local Arena arena, own;
  auto& run = *static_cast<Run<Kind>*>(data);
  const KernelConfig& config = *run.call.config;
  const bool layers = run.call.num_layers > 0;
  const Tiles tiles;
  if (run.plan.together) {
    const Part& part = run.plan.parts[0];
    const Member me{run.rank++, run.threads(), &run.barrier};
    if (!own.room<Desk<Kind>>(config, part.tokens, part.longest, layers)) run.full = true;
    me.wait();
    if (run.full) return;
    const auto desk = own.lay<Desk<Kind>>(config, part.tokens, part.longest, layers);
    Work<Kind>(run.call, part, *run.together, desk, me).run();
    return;
  }
  const long count = static_cast<long>(run.plan.parts.size());
  for (long i; (i = run.next++) < count;) {
    const Part& part = run.plan.parts[i];
    if (!own.room<Desk<Kind>>(config, part.tokens, part.longest, layers) ||
        !arena.room<Space<Kind>>(config, part.tokens, layers)) {
      run.full = true;
      return;
    }
    const auto desk = own.lay<Desk<Kind>>(config, part.tokens, part.longest, layers);
    const auto space = arena.lay<Space<Kind>>(config, part.tokens, layers);
    Work<Kind>(run.call, part, space, desk, {0, 1, nullptr}).run();
  }
}

// Returns whether there was enough memory; otherwise no output is valid.
template <typename Kind>
bool encode(const ForwardCall& call, Parallel parallel, Threads threads, long count) {
  static thread_local Arena arena;
  Run<Kind> run{call, plan(call, count), threads, nullptr, {}};
  const long tokens = run.plan.together ? run.plan.parts[0].tokens : 0;
  if (!arena.room<Space<Kind>>(*call.config, tokens, call.num_layers > 0)) return false;
  const auto space = arena.lay<Space<Kind>>(*call.config, tokens, call.num_layers > 0);
  run.together = &space;
  const long useful = run.plan.together ? count : std::min<long>(count, run.plan.parts.size());
  parallel(work<Kind>, &run, static_cast<unsigned>(useful));
  return !run.full;
}

}  // namespace

extern "C" {

int64_t encoder_abi(int64_t index) {
  return abi<Matrix, Norm, PartNorms, InputGate, Heads, Convolution, Expert, Experts, Layer,
             RelativeTables, KernelConfig, EmbeddingTables, PositionBias, Distances, Rotation,
             ForwardCall>(index);
}

bool encode_float32(const ForwardCall* call, Parallel parallel, Threads threads, int64_t count) {
  return encode<Single>(*call, parallel, threads, count);
}
#ifdef BFLOAT16_PRODUCTS
bool encode_bfloat16(const ForwardCall* call, Parallel parallel, Threads threads, int64_t count) {
  return encode<BFloats>(*call, parallel, threads, count);
}
#endif
#ifdef INT8_PRODUCTS
bool encode_int8(const ForwardCall* call, Parallel parallel, Threads threads, int64_t count) {
  return encode<Int8>(*call, parallel, threads, count);
}
#endif

// Frees the memory that this thread and those of a team keep from call to call.
void release_memory(Parallel parallel, int64_t count) {
  parallel([](void*) { Arena::release_all(); }, nullptr, static_cast<unsigned>(count));
}

// Requests the matrix unit's registers from Linux; returns whether it allows them.
int use_tiles() {
#ifdef __AMX_TILE__
  constexpr long request = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, request, tile_data) == 0;
#else
  return 1;
#endif
}
}
