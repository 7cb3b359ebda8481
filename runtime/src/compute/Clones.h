//===- Clones.h - A function per instruction set ----------------*- C++ -*-===//
#ifndef SHARDWRIGHT_RUNTIME_COMPUTE_CLONES_H
#define SHARDWRIGHT_RUNTIME_COMPUTE_CLONES_H

/// The function exists once per instruction set and the loader picks one, so an
/// executable moves between machines. What it calls must be inlined. Not under
/// ThreadSanitizer: the loader asks before that is ready.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) &&         \
    !defined(__SANITIZE_THREAD__)
#define SW_CLONES                                                              \
  [[gnu::target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")]]
#else
#define SW_CLONES
#endif

#endif // SHARDWRIGHT_RUNTIME_COMPUTE_CLONES_H
