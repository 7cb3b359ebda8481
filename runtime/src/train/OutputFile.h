//===- OutputFile.h - Files that a run writes at its end --------*- C++ -*-===//
#ifndef SHARDWRIGHT_RUNTIME_TRAIN_OUTPUTFILE_H
#define SHARDWRIGHT_RUNTIME_TRAIN_OUTPUTFILE_H

#include <string>

namespace shardwright::runtime {

/// What `path` names behind its links, whether that is there or not.
std::string behindLinks(const std::string &path);

/// Why no file can be made at `path`, or nothing; an existing one stays as it
/// is, until a whole one takes its place at the end. With `isFile` it may not
/// be a device or a pipe, whose place that would take, too.
std::string whyUnwritable(const std::string &path, bool isFile);

/// Writes `text` to `path`: a file in one piece or not at all, a device or pipe
/// as it comes. Returns why not, or nothing.
std::string writeWhole(const std::string &path, const std::string &text);

} // namespace shardwright::runtime

#endif // SHARDWRIGHT_RUNTIME_TRAIN_OUTPUTFILE_H
