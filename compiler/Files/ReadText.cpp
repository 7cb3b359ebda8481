#include "compiler/Files/ReadText.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace shardwright {

bool readText(const std::string &path, std::string &text,
              cost::Failure &failure, int64_t most) {
  namespace fs = std::filesystem;
  auto fail = [&](const std::string &why) {
    return cost::refuse(failure, cost::Diag::file_unreadable, path + why);
  };
  std::error_code error;
  if (fs::is_directory(path, error))
    return fail(": expected a file, but it is a folder");
  if (!fs::exists(path, error) && !error)
    return fail(": expected a file, but it does not exist");
  const bool shells = path.rfind("/dev/fd/", 0) == 0 ||
                      path.rfind("/proc/self/fd/", 0) == 0 ||
                      path == "/dev/stdin";
  if (!error && !shells && !fs::is_regular_file(path, error))
    return fail(": expected a file, but it is a pipe or a device");
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return fail(std::string(": cannot read: ") + std::strerror(errno));
  // In pieces: what a shell hands over has no size, and may have no end.
  text.clear();
  char piece[1 << 16];
  while (file.read(piece, sizeof piece) || file.gcount() > 0) {
    text.append(piece, static_cast<size_t>(file.gcount()));
    if (static_cast<int64_t>(text.size()) > most)
      return fail(": expected at most " + std::to_string(most >> 20) +
                  " MiB, but it is larger");
  }
  if (file.bad())
    return fail(std::string(": cannot read: ") + std::strerror(errno));
  return true;
}

} // namespace shardwright
