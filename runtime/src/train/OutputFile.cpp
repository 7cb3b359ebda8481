#include "runtime/src/train/OutputFile.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <unistd.h>

namespace shardwright::runtime {

namespace fs = std::filesystem;

std::string behindLinks(const std::string &path) {
  std::error_code error;
  fs::path target = path;
  for (int links = 0; links < 40 && fs::is_symlink(target, error); ++links)
    target = target.parent_path() / fs::read_symlink(target, error);
  return target.string();
}

std::string whyUnwritable(const std::string &path, bool isFile) {
  std::error_code error;
  // One look: the file of another process's question may go at any time.
  const fs::file_status there = fs::status(path, error);
  if (isFile && fs::exists(there) && !fs::is_directory(there) &&
      !fs::is_regular_file(there))
    return "it is a device, a pipe or a socket";
  // The processes of a job ask at the same time: who makes the file takes it
  // away, and nobody makes it again.
  int file =
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  bool toNothing = false; // a link
  if (file >= 0) {
    close(file);
    unlink(path.c_str());
  } else if (errno == EEXIST) {
    file = open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    // Whether a device takes anything shows at the first byte: a blank, which
    // no format of ours minds, and no person is shown.
    const bool refuses = file >= 0 && fs::is_character_file(there) &&
                         !isatty(file) && write(file, " ", 1) != 1;
    const int refusal = errno;
    if (file >= 0)
      close(file);
    if (refuses)
      return std::strerror(refusal);
    if (file >= 0)
      toNothing = false;
    else if (errno != ENOENT && errno != ENXIO) // a pipe that nobody reads yet
      return std::strerror(errno);
    else
      toNothing = errno == ENOENT;
  } else {
    return std::strerror(errno);
  }
  const fs::path folder =
      fs::absolute(behindLinks(path), error).parent_path();
  const bool isMade = isFile || toNothing || fs::is_regular_file(there);
  if (isMade && access(folder.c_str(), W_OK | X_OK) != 0)
    return "its folder takes no other file: " +
           std::string(std::strerror(errno));
  return {};
}

std::string writeWhole(const std::string &path, const std::string &text) {
  std::error_code error;
  const fs::file_status there = fs::status(path, error);
  const bool isReplaced = !fs::exists(there) || fs::is_regular_file(there);
  const std::string target = isReplaced ? behindLinks(path) : path;
  const std::string written = isReplaced ? target + ".unfinished" : path;
  errno = 0;
  FILE *file = std::fopen(written.c_str(), "wb");
  bool done = file != nullptr;
  if (file) {
    done = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    done = std::fclose(file) == 0 && done;
  }
  if (done && isReplaced)
    done = rename(written.c_str(), target.c_str()) == 0;
  if (done)
    return {};
  const std::string why = std::strerror(errno);
  if (file && isReplaced)
    unlink(written.c_str());
  return why;
}

} // namespace shardwright::runtime
