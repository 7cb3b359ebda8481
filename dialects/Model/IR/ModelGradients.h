//===- ModelGradients.h - Where the backward pass starts --------*- C++ -*-===//
#ifndef SHARDWRIGHT_DIALECTS_MODEL_IR_MODELGRADIENTS_H
#define SHARDWRIGHT_DIALECTS_MODEL_IR_MODELGRADIENTS_H

#include "dialects/Model/IR/ModelOps.h"

namespace shardwright::model {

/// Gradient of a loss with respect to the logits it was computed from. The
/// chain max_logit, sum_exp, target_logit, token_loss is differentiated as one
/// op: its ops alone have no gradients of their own. Both values are null if
/// `loss` does not come from such a chain.
struct LossGradient {
  mlir::Value logits, gradient;
};
LossGradient buildLossGradient(mlir::OpBuilder &builder, mlir::Value loss);

} // namespace shardwright::model

#endif // SHARDWRIGHT_DIALECTS_MODEL_IR_MODELGRADIENTS_H
