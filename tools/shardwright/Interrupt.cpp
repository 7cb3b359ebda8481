#include "tools/shardwright/Interrupt.h"

#include <atomic>
#include <csignal>

namespace shardwright::tools {

namespace {
std::atomic<bool> wasInterrupted = false;
}

InterruptGuard::InterruptGuard()
    : before(wasInterrupted ? SIG_DFL : std::signal(SIGINT, [](int) {
        wasInterrupted = true;
        std::signal(SIGINT, SIG_DFL);
      })) {}

InterruptGuard::~InterruptGuard() {
  if (!wasInterrupted) // else a second one has to end the process
    std::signal(SIGINT, before);
}

bool InterruptGuard::interrupted() { return wasInterrupted; }

} // namespace shardwright::tools
