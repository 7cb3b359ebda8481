#include "compiler/Files/OutputFile.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace shardwright {

namespace fs = std::filesystem;

namespace {

/// Writes all of `text`; errno says why not.
bool writeAll(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t done = ::write(file, text.data(), text.size());
    if (done < 0 && errno == EINTR)
      continue;
    if (done <= 0)
      return false;
    text.remove_prefix(static_cast<size_t>(done));
  }
  return true;
}

/// Makes a new file beside `target`, whose name `path` becomes.
int makeBeside(const std::string &target, std::string &path) {
  path = target + ".tmp-XXXXXX";
  return ::mkostemp(path.data(), O_CLOEXEC);
}

/// A new file that takes the place of `target`. errno says why not.
bool replaceFile(const std::string &target, std::string_view text) {
  std::string path;
  const int file = makeBeside(target, path);
  if (file < 0)
    return false;
  // As a file that is opened anew would have.
  struct stat before {};
  const mode_t mask = ::umask(0);
  ::umask(mask);
  const mode_t mode = ::stat(target.c_str(), &before) == 0
                          ? before.st_mode & 07777
                          : 0666 & ~mask;
  bool done = writeAll(file, text) && ::fchmod(file, mode) == 0;
  int why = errno;
  if (::close(file) != 0 && done) { // where some file systems say so
    done = false;
    why = errno;
  }
  if (done && ::rename(path.c_str(), target.c_str()) != 0) {
    done = false;
    why = errno;
  }
  if (!done)
    ::unlink(path.c_str());
  errno = why;
  return done;
}

} // namespace

std::string behindLinks(const std::string &path) {
  std::error_code error;
  fs::path target = path;
  for (int links = 0; links < 40 && fs::is_symlink(target, error); ++links)
    target = target.parent_path() / fs::read_symlink(target, error);
  return target.string();
}

bool refuseOutput(const std::string &path, const std::string &why,
                  cost::Failure &failure) {
  return cost::refuse(failure, cost::Diag::output_unwritable,
                      path + ": cannot write: " +
                          (why.empty() ? std::strerror(errno) : why));
}

bool writeText(const std::string &path, std::string_view text,
               cost::Failure &failure) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status) || fs::is_regular_file(status)) {
    const std::string target = behindLinks(path);
    if (fs::is_symlink(target, error))
      return refuseOutput(path, std::strerror(ELOOP), failure);
    return replaceFile(target, text) || refuseOutput(path, "", failure);
  }
  // Opening a pipe waits for a reader, who may never come.
  const int file = ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  if (file < 0)
    return refuseOutput(path, errno == ENXIO ? "a pipe that nobody reads" : "",
                        failure);
  ::fcntl(file, F_SETFL, ::fcntl(file, F_GETFL) & ~O_NONBLOCK);
  bool done = writeAll(file, text);
  const int why = errno;
  done = ::close(file) == 0 && done;
  errno = why;
  return done || refuseOutput(path, "", failure);
}

std::string whyNoRoom(const std::string &path, int64_t bytes) {
  std::string probe;
  const int file = makeBeside(behindLinks(path), probe);
  if (file < 0)
    return std::strerror(errno);
  const int error = bytes > 0 ? ::posix_fallocate(file, 0, bytes) : 0;
  ::close(file);
  ::unlink(probe.c_str());
  return error ? std::strerror(error) : "";
}

bool checkWritable(const std::string &path, cost::Failure &failure) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status))
    return refuseOutput(path, std::strerror(EISDIR), failure);
  // Pipes and devices are written directly, files are new ones beside them.
  if (fs::exists(status) && !fs::is_regular_file(status))
    return true;
  const std::string why = whyNoRoom(path, 0);
  return why.empty() || refuseOutput(path, why, failure);
}

} // namespace shardwright
