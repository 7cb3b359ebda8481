//===- Passes.h - Registration of every pass --------------------*- C++ -*-===//
#ifndef SHARDWRIGHT_PASSES_PASSES_H
#define SHARDWRIGHT_PASSES_PASSES_H

namespace shardwright {

/// Makes every pass known to the pass pipeline parser, by its flag.
void registerPasses();

} // namespace shardwright

#endif // SHARDWRIGHT_PASSES_PASSES_H
