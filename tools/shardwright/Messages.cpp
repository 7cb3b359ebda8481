#include "tools/shardwright/Command.h"

#include <ostream>

namespace shardwright::tools {

ExitCode report(const cost::Failure &failure, std::ostream &err) {
  for (const std::string &line : cost::lines(failure))
    err << "shardwright: " << line << "\n";
  if (failure.messages.empty())
    err << "shardwright: internal error: a failure without a message\n";
  return failure.messages.empty() ? ExitCode::Bug : exitCode(failure.kind);
}

void warn(const std::string &message, std::ostream &err) {
  err << "shardwright: warning: " << cost::cut(message) << "\n";
}

void note(const std::string &message, std::ostream &err) {
  err << "shardwright: note: " << cost::cut(message) << "\n";
}

} // namespace shardwright::tools
