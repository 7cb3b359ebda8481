// No completion of a partial plan is faster than its bound, or smaller.
#include "BoundProbe.h"
#include "SmallPrograms.h"

using namespace shardwright::cost;
using namespace shardwright::test;

TEST_CASE("no completion of 50,000 partial plans beats its bounds") {
  std::mt19937 random(20251129);
  const auto pick = [&](auto... options) {
    const int64_t values[] = {options...};
    return values[random() % sizeof...(options)];
  };
  const std::vector<std::string> profiles = shippedProfileNames();
  const char *clusters[] = {"dgx-h100", "dgx-a100", "dgx-b200", "host",
                            "gb200-nvl72"};
  double tightness = 0, roughness = 0;
  int64_t probes = 0;
  for (int64_t seen = 0, wanted = randomPlans(50000); seen < wanted;) {
    LlamaSizes sizes;
    sizes.kvHeads = pick(1, 2, 4, 8);
    sizes.group = pick(1, 2, 4);
    sizes.headDim = pick(8, 64, 128);
    sizes.hidden = pick(64, 512, 2048);
    sizes.ffn = pick(128, 1024, 4096);
    sizes.sequence = pick(16, 128, 2048, 131072);
    sizes.vocab = pick(1000, 32000);
    sizes.layers = pick(1, 2, 3, 5, 8, 13, 24);
    sizes.tied = random() % 2;
    const std::string cluster = clusters[random() % 5];
    const std::string name = profiles[random() % profiles.size()];
    const Program program = smallLlama(sizes);
    Hardware whole, hardware;
    Profile profile;
    Failure failure;
    REQUIRE(readHardware(shippedHardware(cluster), cluster, whole, failure));
    REQUIRE(readProfile(shippedProfile(name), name, profile, failure));
    SearchOptions options;
    options.gpus = pick(1, 2, 4, 8, 12, 16, 48, 64, 256);
    if (!resized(whole, options.gpus, hardware, failure))
      continue;
    Plan base;
    base.sequence = sizes.sequence;
    base.dtypes = profile.dtypes;
    if (cluster == "host")
      base.dtypes = {DType::F32, DType::F32, DType::F32, DType::F32,
                     DType::F32};
    base.globalBatch = options.globalBatch =
        options.gpus * pick(1, 2, 3, 8) / pick(1, 1, 2);
    if (base.globalBatch == 0)
      continue;
    options.layers = program.layers;
    options.policies = searchedPolicies(program);
    options.zero = options.zeroUnderPipeline = {0, 1, 2, 3};
    options.schedules.assign(std::begin(scheduleKinds),
                             std::end(scheduleKinds));
    options.memoryLimit = hardware.device.usable;
    if (random() % 3 == 0) // then interleaved microbatches come in larger groups
      options.ranges[static_cast<int>(Field::Group)].without = {2, 3, 4, 6, 8};
    if (random() % 2) { // what a question may leave free
      options.cpKinds.assign(std::begin(cpKinds), std::end(cpKinds));
      options.copies = {1, 2, 3};
      options.orders = {MeshOrder::PpDp, MeshOrder::DpPp};
      options.nodeRanks = hardware.ranksPerNode();
      if (hardware.host.known())
        options.offload = {1, 2, 3};
      if (cluster == "dgx-h100" || cluster == "dgx-b200")
        options.products = {Narrow::None, Narrow::Fp8, Narrow::Fp8Block};
      if (random() % 2)
        options.gradients = {DType::F32, DType::BF16};
    }
    BoundProbe probe(program, hardware, profile, base, options);
    CAPTURE(cluster, name, options.gpus, base.globalBatch, sizes.layers);
    for (int i = 0; i < 6 && !probe.empty(); ++i)
      seen += probe.draw(random);
    tightness += probe.tightness;
    roughness += probe.roughness;
    probes += probe.probes;
  }
  // On the mean of all depths, the mesh alone included.
  CHECK(tightness / static_cast<double>(5 * probes) > 0.5);
  CHECK(roughness / static_cast<double>(2 * probes) > 0.3);
}
