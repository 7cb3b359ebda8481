//===- NarrowRules.cpp - Extents of products in 8 and 4 bits --------------===//
#include "cost_model/rules/RuleCheck.h"

#include <algorithm>
#include <set>

namespace shardwright::cost {

namespace {

/// What the extents of a product in `narrow` are multiples of; 1: of anything.
/// Source: Transformer Engine 2, pytorch: utils.py
/// assert_dim_for_fp8_exec (16, which cuBLASLt's fp8 layouts need), and blocks of
/// 32 (OCP MX 1.0) and of 128 x 128 (DeepSeek-V3, section 3.3).
int64_t multipleOf(Narrow narrow) {
  switch (narrow) {
  case Narrow::None: return 1;
  case Narrow::Fp8: return 16;
  case Narrow::Mxfp8:
  case Narrow::Fp4Block: return 32;
  case Narrow::Fp8Block: return 128;
  }
  return 1;
}

} // namespace

void checkNarrowExtents(RuleCheck &check) {
  const Plan &plan = check.plan;
  const Program &program = check.program;
  const int64_t multiple = multipleOf(plan.dtypes.products);
  if (multiple == 1)
    return;
  std::set<std::string> said;
  // An extent that is not split evenly is refused by another rule.
  const auto want = [&](const std::string &what, int64_t size, int64_t ranks,
                        const std::string &split) {
    if (size == 0 || size % ranks != 0 || size / ranks % multiple == 0 ||
        !said.insert(what).second)
      return;
    std::vector<int64_t> legal;
    if (!split.empty())
      for (int64_t fewer : divisors(ranks))
        if (size / fewer % multiple == 0)
          legal.push_back(fewer);
    check.failNear("expected " + what + " of a rank to be a multiple of " +
                       std::to_string(multiple) + " for products in " +
                       std::string(name(plan.dtypes.products)) + ", but got " +
                       std::to_string(size) +
                       (ranks > 1 ? " / " + std::to_string(ranks) + " = " +
                                        std::to_string(size / ranks)
                                  : ""),
                   split, ranks, legal);
  };
  int64_t tokens = 0;
  if (!__builtin_mul_overflow(plan.microBatch, program.sequence, &tokens))
    want("the tokens of a microbatch", tokens, plan.cp, "cp");
  want("the hidden size", program.hidden, 1, "");
  for (const Kind &kind : program.kinds)
    for (const Parameter &parameter : kind.parameters) {
      if (parameter.dims.size() < 2 || !mayBeNarrow(parameter.segment))
        continue; // a norm or a bias multiplies nothing
      const auto width = [&](auto counts) {
        int64_t product = 1;
        for (const Dim &dim : parameter.dims)
          if (counts(dim.role))
            product = checkedMul(product, dim.size);
        return product;
      };
      const auto has = [&](Role role) {
        return std::any_of(parameter.dims.begin(), parameter.dims.end(),
                           [&](const Dim &dim) { return dim.role == role; });
      };
      switch (parameter.segment) {
      case Segment::Attention: {
        if (!has(Role::Heads))
          break;
        const bool queries = has(Role::Group);
        want(queries ? "the query heads' width" : "the key/value heads' width",
             width([](Role role) {
               return role == Role::Heads || role == Role::Group ||
                      role == Role::HeadDim || role == Role::ValueDim;
             }),
             queries ? plan.tp
                     : std::max<int64_t>(plan.tp / plan.kvReplicas, 1),
             "tp");
        break;
      }
      case Segment::Mlp:
        if (has(Role::Ffn))
          want("the feed-forward width",
               width([](Role role) { return role == Role::Ffn; }), plan.tp,
               "tp");
        break;
      case Segment::Experts:
        want("the feed-forward width of an expert",
             width([](Role role) { return role == Role::Ffn; }), plan.etp,
             "etp");
        break;
      default: // has no products that a degree splits
        break;
      }
    }
}

} // namespace shardwright::cost
