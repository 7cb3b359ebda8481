//===- ModelExpertOps.td - Routed experts ------------------*- tablegen -*-===//
//
// A token is copied to the `k` experts that its router chooses. Copies are
// "rows" (`c` of them, tokens times choices); one dim holds all of them, so no
// size here depends on which expert gets how many.
//
//===----------------------------------------------------------------------===//
#ifndef SHARDWRIGHT_DIALECTS_MODEL_IR_MODELEXPERTOPS
#define SHARDWRIGHT_DIALECTS_MODEL_IR_MODELEXPERTOPS

include "dialects/Model/IR/ModelBase.td"

def Model_RouteOp : Model_ForwardOp<"route",
    (ins Model_Float:$logits, Optional<Model_Float>:$bias),
    (ins Model_ScoreAttr:$score, BoolAttr:$normalize, F64Attr:$scale,
         F64Attr:$aux_loss, DefaultValuedAttr<I64Attr, "1">:$groups,
         DefaultValuedAttr<I64Attr, "1">:$top_groups)> {
  let summary = "Chooses the experts of every token";
  let description = [{
    With `score = softmax_x(logits)` or, for `sigmoid`, `1 / (1 + exp(-logits))`:
    `experts` are the `k` experts of largest score of each token, in falling
    order, ties by number; `weights` their scores, divided by their sum if
    `normalize`, times `scale`. `chosen` is the softmax over the chosen logits
    only. With `groups` > 1 only experts of the `top_groups` groups with the
    largest sum of their two best scores are eligible. `bias[x]` is added to the
    scores for the choice, not for the weights; it balances the experts, and its
    gradient is their load, summed over the sequences. `load[b, x]` is the share
    of the sequence's choices that went to an expert.

    The auxiliary loss of a sequence is `aux_loss * sum_x E * load[x] *
    mean_s(p[s, x])`, `p` the scores divided by their sum; its gradient is added
    by `route_grad`. It is no part of the loss that is reported.

    Constraints (besides space_c1 to space_c3):
    * (route_c1) `k` is at most the number of experts.
    * (route_c2) `groups` divides the experts, `top_groups` is from 1 to it.

    Factors: `s`, `b` parallel, for `load` `s` is a sum; `x`, `k` stay whole.
    Work: no counted flops.

    Example:
    ```mlir
    %w, %e, %load = model.route %logits in router label "route"
        {score = #model.score<softmax>, normalize = true, scale = 1.0 : f64,
         aux_loss = 1.0e-2 : f64}
        : (tensor<8x1x6xf32>)
        -> (tensor<8x1x2xf32>, tensor<8x1x2xi32>, tensor<1x6xf32>)
    ```
  }];
  let results = (outs Model_Float:$weights, Model_Index:$experts,
                      Model_Float:$load);
}

def Model_RouteGradOp : Model_ComputeOp<"route_grad",
    (ins Model_Float:$dweights, Model_Float:$logits, Model_Index:$experts,
         Optional<Model_Float>:$load),
    (ins Model_ScoreAttr:$score, BoolAttr:$normalize, F64Attr:$scale,
         F64Attr:$aux_loss)> {
  let summary = "Gradient of route with respect to the logits";
  let description = [{
    Computes `dlogits[s, b, x]` from the gradient of the weights of the chosen
    experts and, if `aux_loss` is not 0, from the auxiliary loss, for which
    `load` is a constant.

    Constraints (besides space_c1 to space_c3):
    * (route_grad_c1) `load` is given exactly if `aux_loss` is not 0.

    Factors: `s`, `b` parallel; `x`, `k` stay whole.
    Work: no counted flops.

    Example:
    ```mlir
    %dl = model.route_grad %dw, %logits, %e in router
        {score = #model.score<softmax>, normalize = true, scale = 1.0 : f64,
         aux_loss = 0.0 : f64}
        : (tensor<8x1x2xf32>, tensor<8x1x6xf32>, tensor<8x1x2xi32>)
        -> tensor<8x1x6xf32>
    ```
  }];
  let results = (outs Model_Float:$dlogits);
}

def Model_DispatchOp : Model_ForwardOp<"dispatch",
    (ins Model_Float:$input, Model_Index:$experts), (ins)> {
  let summary = "Copies every token to the rows of its experts";
  let description = [{
    `rows[c] = input[s, b]` for the `c`-th of all choices `(s, b, k)`, sorted by
    expert and, within one, by `(s, b, k)`. Its transpose is `combine`.

    Constraints (besides space_c1 to space_c3):
    * (rows_c1) there is one row for each choice.

    Factors: all parallel; a rank makes the rows of its tokens. Linear.
    Work: no counted flops.

    Example:
    ```mlir
    %r = model.dispatch %x, %e in router label "dispatch"
        : (tensor<8x1x16xf32>, tensor<8x1x2xi32>) -> tensor<16x16xf32>
    ```
  }];
  let results = (outs Model_Float:$rows);
}

def Model_CombineOp : Model_ForwardOp<"combine",
    (ins Model_Float:$rows, Model_Index:$experts), (ins)> {
  let summary = "Adds up the rows of every token";
  let description = [{
    `result[s, b]` is the sum of the rows that `dispatch` makes of the token.

    Constraints (besides space_c1 to space_c3): rows_c1.

    Factors: all parallel; a rank has the rows of its tokens. Linear.
    Work: no counted flops.

    Example:
    ```mlir
    %y = model.combine %r, %e in router label "combine"
        : (tensor<16x16xf32>, tensor<8x1x2xi32>) -> tensor<8x1x16xf32>
    ```
  }];
  let results = (outs Model_Float:$result);
}

def Model_SelectRowsOp : Model_ForwardOp<"select_rows",
    (ins Model_AnyTensor:$values, Model_Index:$experts),
    (ins DefaultValuedAttr<BoolAttr, "false">:$inverse)> {
  let summary = "One number of every choice, in the order of the rows";
  let description = [{
    `result[c] = values[s, b, k]` for the choices in the order of `dispatch`;
    `inverse` puts numbers of rows back to their choices. Gives weights and
    experts of rows.

    Constraints (besides space_c1 to space_c3): rows_c1.

    Factors: all parallel. Linear.
    Work: no counted flops.

    Example:
    ```mlir
    %rw = model.select_rows %w, %e in router label "row_weights"
        : (tensor<8x1x2xf32>, tensor<8x1x2xi32>) -> tensor<16xf32>
    ```
  }];
  let results = (outs Model_AnyTensor:$result);
}

def Model_RowOrderOp : Model_ComputeOp<"row_order",
    (ins Model_Index:$row_experts), (ins)> {
  let summary = "The order that sorts rows by expert";
  let description = [{
    Rows that arrive from several ranks are sorted by expert only within what
    one rank sent. `order[c]` is the number of the row that comes `c`-th when
    they are sorted by expert, ties by number; `sorted` their experts.

    Constraints: space_c1 to space_c3.

    Factors: `c` parallel: a rank sorts its own rows.
    Work: no counted flops.

    Example:
    ```mlir
    %o, %se = model.row_order %re in experts label "row_order"
        : (tensor<16xi32>) -> (tensor<16xi32>, tensor<16xi32>)
    ```
  }];
  let results = (outs Model_Index:$order, Model_Index:$sorted);
}

def Model_PermuteRowsOp : Model_ForwardOp<"permute_rows",
    (ins Model_Float:$input, Model_Index:$order),
    (ins StrAttr:$letters, DefaultValuedAttr<BoolAttr, "false">:$inverse)> {
  let summary = "Rows in another order";
  let description = [{
    `result[c] = input[order[c]]`, or `result[order[c]] = input[c]` if
    `inverse`, which is also the gradient.

    Constraints (besides space_c1 to space_c3):
    * (permute_rows_c1) `letters` begin with `c`.

    Factors: all parallel: a rank permutes its own rows. Linear.
    Work: no counted flops.

    Example:
    ```mlir
    %g = model.permute_rows %r, %o in experts label "group" {letters = "ch"}
        : (tensor<16x16xf32>, tensor<16xi32>) -> tensor<16x16xf32>
    ```
  }];
  let results = (outs Model_Float:$result);
}

def Model_GroupedContractOp : Model_ForwardOp<"grouped_contract",
    (ins Model_Float:$lhs, Model_Float:$rhs, Model_Index:$row_experts),
    (ins StrAttr:$spec)> {
  let summary = "Contraction of every row with the matrix of its expert";
  let description = [{
    Rows are sorted by expert. With `spec = "ch,xmh->cm"`, `result[c, m] = sum_h
    lhs[c, h] * rhs[row_experts[c], m, h]`. With `x` in the result instead,
    `"ch,cm->xmh"`, `result[x, m, h]` is the sum over the rows of expert `x`:
    the gradient of the matrices.

    Constraints (besides space_c1 to space_c3):
    * (grouped_contract_c1) `c` stands in lhs; `x` stands in rhs or in the
      result, and not in lhs.
    * (grouped_contract_c2) every other letter stands in two of lhs, rhs and
      result.
    * (grouped_contract_c3) `spec` has the form `"letters,letters->letters"`.

    Factors: letters of the result and `x` parallel, the others a sum. Rows of
    an expert must lie with the rank that has its matrix. Linear in `lhs`.
    Work: 2 flops per point of the space without `x`.

    Example:
    ```mlir
    %u = model.grouped_contract %r, %w, %se in experts label "expert_up"
        {spec = "ch,xmh->cm"}
        : (tensor<16x16xf32>, tensor<6x12x16xf32>, tensor<16xi32>)
        -> tensor<16x12xf32>
    ```
  }];
  let results = (outs Model_Float:$result);
}

def Model_ExpertBiasOp : Model_ForwardOp<"expert_bias",
    (ins Model_Float:$input, Model_Float:$bias, Model_Index:$row_experts,
         Optional<Model_Float>:$row_weights),
    (ins StrAttr:$letters)> {
  let summary = "Adds the bias of its expert to every row";
  let description = [{
    With `letters = "cm"`: `result[c, m] = input[c, m] + bias[row_experts[c], m]`,
    the bias times `row_weights[c]` if given (rows that are weighted already).

    Constraints (besides space_c1 to space_c3):
    * (expert_bias_c1) `letters` are `c` and one more.

    Factors: all parallel. Not linear, as `bias_add`.
    Work: no counted flops.

    Example:
    ```mlir
    %r = model.expert_bias %u, %bias, %se in experts {letters = "cm"}
        : (tensor<16x12xf32>, tensor<6x12xf32>, tensor<16xi32>)
        -> tensor<16x12xf32>
    ```
  }];
  let results = (outs Model_Float:$result);
}

def Model_ExpertBiasGradOp : Model_ComputeOp<"expert_bias_grad",
    (ins Model_Float:$dy, Model_Index:$row_experts,
         Optional<Model_Float>:$row_weights),
    (ins StrAttr:$letters, I64Attr:$experts)> {
  let summary = "Gradient of the biases of experts";
  let description = [{
    `dbias[x, m]` is the sum of `dy[c, m]`, times `row_weights[c]` if given, over
    the rows of expert `x`.

    Constraints (besides space_c1 to space_c3): expert_bias_c1.

    Factors: `x` and the row's letter parallel, `c` a sum.
    Work: no counted flops.

    Example:
    ```mlir
    %db = model.expert_bias_grad %dy, %se in experts
        {letters = "cm", experts = 6 : i64}
        : (tensor<16x12xf32>, tensor<16xi32>) -> tensor<6x12xf32>
    ```
  }];
  let results = (outs Model_Float:$dbias);
}

def Model_ExpertBiasWeightGradOp : Model_ComputeOp<"expert_bias_weight_grad",
    (ins Model_Float:$dy, Model_Float:$bias, Model_Index:$row_experts),
    (ins StrAttr:$letters)> {
  let summary = "Gradient of expert_bias with respect to the row weights";
  let description = [{
    `dweights[c] = sum_m dy[c, m] * bias[row_experts[c], m]`.

    Constraints (besides space_c1 to space_c3): expert_bias_c1.

    Factors: `c`, `x` parallel, the row's letter a sum.
    Work: no counted flops.

    Example:
    ```mlir
    %dw = model.expert_bias_weight_grad %dy, %bias, %se in experts
        {letters = "cm"}
        : (tensor<16x12xf32>, tensor<6x12xf32>, tensor<16xi32>)
        -> tensor<16xf32>
    ```
  }];
  let results = (outs Model_Float:$dweights);
}

def Model_WeightedSwigluOp : Model_ForwardOp<"weighted_swiglu",
    (ins Model_Float:$gate, Model_Float:$up, Model_Float:$row_weights),
    (ins StrAttr:$letters, OptionalAttr<F64Attr>:$limit,
         DefaultValuedAttr<BoolAttr, "false">:$weighs_input)> {
  let summary = "Gated activation of rows, times their weights";
  let description = [{
    `result[c, m] = row_weights[c] * silu(gate[c, m]) * up[c, m]`. With `limit`
    as gpt-oss has it: `gate` at most `limit`, `up` within `[-limit, limit]`,
    `result = row_weights * gate * sigmoid(1.702 gate) * (up + 1)`. A weight here
    is a weight of the expert's result, whose last product is linear. With
    `weighs_input` it is one of the expert's input, whose first products are:
    `result = silu(row_weights * gate) * row_weights * up`.

    Constraints: space_c1 to space_c3.

    Factors: all parallel.
    Work: no counted flops.

    Example:
    ```mlir
    %a = model.weighted_swiglu %g, %u, %rw in experts label "expert_act"
        {letters = "cm"}
        : (tensor<16x12xf32>, tensor<16x12xf32>, tensor<16xf32>)
        -> tensor<16x12xf32>
    ```
  }];
  let results = (outs Model_Float:$result);
}

def Model_WeightedSwigluGradOp : Model_ComputeOp<"weighted_swiglu_grad",
    (ins Model_Float:$dy, Model_Float:$gate, Model_Float:$up,
         Model_Float:$row_weights),
    (ins StrAttr:$letters, OptionalAttr<F64Attr>:$limit,
         DefaultValuedAttr<BoolAttr, "false">:$weighs_input)> {
  let summary = "Gradient of weighted_swiglu";
  let description = [{
    `dgate` and `dup` as those of `swiglu` times the row's weight, and
    `dweights[c] = sum_m dy * silu(gate) * up`. With `weighs_input` they are
    those of `swiglu` at `row_weights * gate` and `row_weights * up`, times the
    row's weight, and `dweights[c] = sum_m dgate * gate + dup * up` before that.

    Constraints: space_c1 to space_c3.

    Factors: `c` parallel; the other letter parallel, and a sum for `dweights`.
    Work: no counted flops.

    Example:
    ```mlir
    %dg, %du, %dw = model.weighted_swiglu_grad %dy, %g, %u, %rw in experts
        {letters = "cm"}
        : (tensor<16x12xf32>, tensor<16x12xf32>, tensor<16x12xf32>,
           tensor<16xf32>)
        -> (tensor<16x12xf32>, tensor<16x12xf32>, tensor<16xf32>)
    ```
  }];
  let results = (outs Model_Float:$dgate, Model_Float:$dup,
                      Model_Float:$dweights);
}

def Model_SigmoidGateOp : Model_ForwardOp<"sigmoid_gate",
    (ins Model_Float:$input, Model_Float:$gate), (ins)> {
  let summary = "Every token times the sigmoid of its gate";
  let description = [{
    `result[s, b, h] = input[s, b, h] / (1 + exp(-gate[s, b]))`: the gate of
    shared experts.

    Constraints: space_c1 to space_c3.

    Factors: all parallel.
    Work: no counted flops.

    Example:
    ```mlir
    %r = model.sigmoid_gate %y, %g in stream label "shared_gate"
        : (tensor<8x1x16xf32>, tensor<8x1xf32>) -> tensor<8x1x16xf32>
    ```
  }];
  let results = (outs Model_Float:$result);
}

def Model_SigmoidGateGradOp : Model_ComputeOp<"sigmoid_gate_grad",
    (ins Model_Float:$dy, Model_Float:$input, Model_Float:$gate), (ins)> {
  let summary = "Gradient of sigmoid_gate";
  let description = [{
    With `z` the sigmoid of the gate: `dinput = dy * z` and
    `dgate = z * (1 - z) * sum_h dy * input`.

    Constraints: space_c1 to space_c3.

    Factors: `s`, `b` parallel; `h` stays whole.
    Work: no counted flops.

    Example:
    ```mlir
    %dx, %dg = model.sigmoid_gate_grad %dy, %y, %g in stream
        : (tensor<8x1x16xf32>, tensor<8x1x16xf32>, tensor<8x1xf32>)
        -> (tensor<8x1x16xf32>, tensor<8x1xf32>)
    ```
  }];
  let results = (outs Model_Float:$dinput, Model_Float:$dgate);
}

#endif // SHARDWRIGHT_DIALECTS_MODEL_IR_MODELEXPERTOPS
