#include "cost_model/partition/LedgerJson.h"
#include "cost_model/base/JsonWriter.h"

namespace shardwright::cost {

using nlohmann::json;

std::string ledgerJson(const Ledger &ledger) {
  json collectives = json::array();
  for (const auto &[key, entry] : ledger.collectives)
    collectives.push_back({{"collective", name(key.collective)},
                           {"axis", key.axis},
                           {"phase", name(key.phase)},
                           {"calls", entry.calls},
                           {"payload_bytes", entry.payload.count()}});
  json flops = json::object();
  for (const auto &[phase, count] : ledger.flops)
    flops[std::string(name(phase))] = count.count();
  const MemoryParts &memory = ledger.memory;
  return canonicalJson({
      {"collectives", std::move(collectives)},
      {"flops", std::move(flops)},
      {"memory",
       {{"parameters_bytes", memory.parameters.count()},
        {"gradients_bytes", memory.gradients.count()},
        {"optimizer_bytes", memory.optimizer.count()},
        {"saved_bytes", memory.saved.count()},
        {"p2p_bytes", memory.p2p.count()},
        {"comm_bytes", memory.comm.count()},
        {"workspace_bytes", memory.workspace.count()},
        {"total_bytes", memory.total().count()}}},
  });
}

} // namespace shardwright::cost
