// The layers of a transformer encoder on the CPU, over packed sequences.
// The order of a text's computation depends only on the text, so its result is bit-identical in
// every batch and on any number of threads. The code is compiled once for each instruction set.
// Values stay in a core's own cache from layer to layer. No headers of libraries are needed.

#ifdef __AMX_TILE__
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "abi.h"
#include "division.h"
#include "forward_pass.h"

namespace {

// A call and its plan: all threads share one part, or each takes its own parts.
template <typename Kind>
struct Run {
  const ForwardCall& call;
  const Plan plan;
  Threads threads;
  const TeamMemory<Kind>* together;
  Barrier barrier;
  std::atomic<long> rank{0}, next{0};
  std::atomic<bool> out_of_memory{false};  // a thread lacked the memory for its part
};

template <typename Kind>
void work(void* data) {
  auto& run = *static_cast<Run<Kind>*>(data);
  const KernelConfig& config = *run.call.config;
  const Tiles tiles;
  if (run.plan.together) {
    const Part& part = run.plan.parts[0];
    const Member me{run.rank++, run.threads(), &run.barrier};
    const PartShape shape = part.shape(run.call, me.size);
    if (!scratch.steps.reserve<ThreadMemory<Kind>>(config, shape)) run.out_of_memory = true;
    me.wait();
    if (run.out_of_memory) return;
    const auto own = scratch.steps.lay_out<ThreadMemory<Kind>>(config, shape);
    run_pass(Pass<Kind>(run.call, part, *run.together, own, me));
    return;
  }
  const long count = static_cast<long>(run.plan.parts.size());
  for (long i; (i = run.next++) < count;) {
    const Part& part = run.plan.parts[i];
    const PartShape shape = part.shape(run.call, 1);
    if (!scratch.steps.reserve<ThreadMemory<Kind>>(config, shape) ||
        !scratch.rows.reserve<TeamMemory<Kind>>(config, shape)) {
      run.out_of_memory = true;
      return;
    }
    const auto own = scratch.steps.lay_out<ThreadMemory<Kind>>(config, shape);
    const auto team = scratch.rows.lay_out<TeamMemory<Kind>>(config, shape);
    run_pass(Pass<Kind>(run.call, part, team, own, {0, 1, nullptr}));
  }
}

// Returns whether there was enough memory; otherwise no output is valid.
template <typename Kind>
bool encode(const ForwardCall& call, Parallel parallel, Threads threads, long count) {
  Run<Kind> run{call, plan(call, count), threads, nullptr, {}};
  const Plan& planned = run.plan;
  PartShape shape{};
  if (planned.together) shape = planned.parts[0].shape(call, planned.threads);
  if (!scratch.shared.reserve<TeamMemory<Kind>>(*call.config, shape)) return false;
  const auto team = scratch.shared.lay_out<TeamMemory<Kind>>(*call.config, shape);
  run.together = &team;
  parallel(work<Kind>, &run, static_cast<unsigned>(planned.threads));
  return !run.out_of_memory;
}

}  // namespace

extern "C" {

int64_t encoder_abi(int64_t index) {
  return abi<Matrix, Norm, PartNorms, InputGate, Heads, Convolution, DeltaHeads, DeltaNet, Expert,
             Experts, Layer, RelativeTables, KernelConfig, EmbeddingTables, PositionBias, Distances,
             Rotation, ForwardCall>(index);
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

// Frees the memory that this thread and those of a team keep from call to call; returns its bytes.
int64_t release_scratch(Parallel parallel, int64_t count) {
  std::atomic<int64_t> freed{0};
  const auto release = [](void* sum) {
    *static_cast<std::atomic<int64_t>*>(sum) += scratch.release();
  };
  parallel(release, &freed, static_cast<unsigned>(count));
  return freed;
}

// Writes how a call in float32 would be divided among up to `count` threads, as in Division.
void divide_float32(const ForwardCall* call, int64_t count, Division* out) {
  *out = divide<Single>(*call, count);
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
