#include "compiler/Driver/Limits.h"

#include "cost_model/base/Failure.h"

#include "llvm/Support/ErrorHandling.h"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>

#include <unistd.h>

namespace shardwright {

namespace {

char message[200];
int code;

/// No destructors: they may want memory, and other threads still work.
[[noreturn]] void endWithoutMemory() {
  static std::atomic<bool> isSaid = false;
  while (isSaid.exchange(true))
    ::pause(); // for the thread that says it
  const ssize_t written = ::write(STDERR_FILENO, message, std::strlen(message));
  static_cast<void>(written);
  ::_exit(code);
}

void endWithoutMemory(void *, const char *, bool) { endWithoutMemory(); }

} // namespace

void heedLimits(const char *tool) {
  const cost::Diagnostic &entry = cost::describe(cost::Diag::out_of_memory);
  std::snprintf(message, sizeof message,
                "%s: error: expected more memory, but the system gave none "
                "[%s]\n",
                tool, std::string(entry.name).c_str());
  code = static_cast<int>(entry.kind);
  std::set_new_handler(endWithoutMemory);
  llvm::remove_bad_alloc_error_handler();
  llvm::install_bad_alloc_error_handler(endWithoutMemory);
  std::signal(SIGXFSZ, SIG_IGN);
}

} // namespace shardwright
