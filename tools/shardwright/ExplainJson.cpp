//===- ExplainJson.cpp - Explanations as JSON for scripts -----------------===//
#include "cost_model/estimate/Explain.h"
#include "tools/shardwright/PlanJson.h"

namespace shardwright::tools {

using namespace cost;

Json explanationJson(const Explanation &explanation) {
  Json parts = Json::object();
  for (const ExplainedPart &part : explanation.parts) {
    Json lines = Json::array();
    for (const ExplainedLine &line : part.lines) {
      Json inputs = Json::object(), units = Json::object();
      for (const ExplainedInput &input : line.inputs) {
        inputs[input.name] = input.value;
        units[input.name] = input.unit;
      }
      lines.push_back({{"name", line.name},
                       {"value", line.value},
                       {"unit", line.unit},
                       {"formula", line.formula},
                       {"inputs", inputs},
                       {"input_units", units}});
    }
    parts[part.name] = {{"about", part.about}, {"lines", lines}};
  }
  Json collectives = Json::array();
  for (const ExplainedCollective &line : explanation.collectives)
    collectives.push_back({{"collective", line.collective},
                           {"axis", line.axis},
                           {"phase", line.phase},
                           {"calls", line.calls},
                           {"payload_bytes_per_call", line.payloadBytes},
                           {"ranks", line.ranks},
                           {"nodes", line.nodes},
                           {"ranks_per_node", line.perNode},
                           {"groups_sharing_nics", line.sharing},
                           {"algorithm", line.algorithm},
                           {"protocol", line.protocol},
                           {"seconds_per_call", line.secondsPerCall},
                           {"seconds", line.seconds},
                           {"nic_bytes_per_call", line.nicBytesPerCall}});
  return {{"parts", parts}, {"collectives", collectives}};
}

} // namespace shardwright::tools
