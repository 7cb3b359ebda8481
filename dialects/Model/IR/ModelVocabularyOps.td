//===- ModelVocabularyOps.td - Embeddings and the loss -----*- tablegen -*-===//
#ifndef SHARDWRIGHT_DIALECTS_MODEL_IR_MODELVOCABULARYOPS
#define SHARDWRIGHT_DIALECTS_MODEL_IR_MODELVOCABULARYOPS

include "dialects/Model/IR/ModelBase.td"

def Model_EmbeddingOp : Model_ForwardOp<"embedding",
    (ins Model_Index:$ids, Model_Float:$table), (ins)> {
  let summary = "Looks up rows of a table";
  let description = [{
    Computes `output[s,b,h] = table[ids[s,b],h]`.

    Constraints: space_c1 to space_c3.

    Factors: `s`, `b`, `h` parallel; `v` a sum: a rank that holds some rows
    gives zeros for the ids of the others, and needs its origin of `v`.
    Work: no counted flops.

    Example:
    ```mlir
    %y = model.embedding %ids, %table in embed label "embedding"
        : (tensor<8x1xi32>, tensor<64x16xf32>) -> tensor<8x1x16xf32>
    ```
  }];
  let results = (outs Model_Float:$output);
}

def Model_EmbeddingGradOp : Model_ComputeOp<"embedding_grad",
    (ins Model_Index:$ids, Model_Float:$dy), (ins)> {
  let summary = "Gradient of embedding with respect to its table";
  let description = [{
    Computes `dtable[v,h] = sum over s,b with ids[s,b] = v of dy[s,b,h]`.

    Constraints: space_c1 to space_c3.

    Factors: `v`, `h` parallel, `s`, `b` a sum; a rank needs its origin of `v`.
    Linear in `dy`.
    Work: no counted flops.

    Example:
    ```mlir
    %dt = model.embedding_grad %ids, %dy in embed
        : (tensor<8x1xi32>, tensor<8x1x16xf32>) -> tensor<64x16xf32>
    ```
  }];
  let results = (outs Model_Float:$dtable);
}

def Model_AddPositionsOp : Model_ForwardOp<"add_positions",
    (ins Model_Float:$input, Model_Float:$table),
    (ins DefaultValuedAttr<Int64Attr, "0">:$offset)> {
  let summary = "Adds learned positions";
  let description = [{
    Computes `output[s,b,h] = input[s,b,h] + table[s + offset,h]`.

    Constraints (besides space_c1 to space_c3):
    * (add_positions_c1) the table has at least `offset` rows (`p`) more than
      there are positions `s`.
    * (add_positions_c2) `offset` is at least 0.

    Factors: `s`, `b`, `h` parallel; `p` stays whole on a rank, which needs its
    origin of `s`. Not linear, for the reason of `bias_add`.
    Work: no counted flops.

    Example:
    ```mlir
    %y = model.add_positions %x, %table in embed label "positions"
        : (tensor<8x1x16xf32>, tensor<12x16xf32>) -> tensor<8x1x16xf32>
    ```
  }];
  let results = (outs Model_Float:$output);
}

def Model_AddPositionsGradOp : Model_ComputeOp<"add_positions_grad",
    (ins Model_Float:$dy), (ins DefaultValuedAttr<Int64Attr, "0">:$offset)> {
  let summary = "Gradient of add_positions with respect to its table";
  let description = [{
    Computes `dtable[s + offset,h] = sum_b dy[s,b,h]`, 0 in all other rows.

    Constraints: add_positions_c1, add_positions_c2, space_c1 to space_c3.

    Factors: `h` parallel, `s`, `b` a sum; `p` stays whole on a rank, which
    needs its origin of `s`. Linear.
    Work: no counted flops.

    Example:
    ```mlir
    %dt = model.add_positions_grad %dy in embed
        : (tensor<8x1x16xf32>) -> tensor<12x16xf32>
    ```
  }];
  let results = (outs Model_Float:$dtable);
}

def Model_MaxLogitOp : Model_ComputeOp<"max_logit",
    (ins Model_Float:$logits), (ins Int64Attr:$valid_vocab)> {
  let summary = "Largest logit of each token";
  let description = [{
    Computes `max[s,b] = max over v < valid_vocab of logits[s,b,v]`. Columns
    from `valid_vocab` on (a global number) are padding and count as minus
    infinity.

    Constraints (besides space_c1 to space_c3):
    * (vocab_c1) `valid_vocab` is at least 1.

    Factors: `s`, `b` parallel, `v` a maximum; a rank needs its origin of `v`.
    Work: no counted flops.

    Example:
    ```mlir
    %max = model.max_logit %logits in loss {valid_vocab = 60 : i64}
        : (tensor<8x1x64xf32>) -> tensor<8x1xf32>
    ```
  }];
  let results = (outs Model_Float:$max);
}

def Model_SumExpOp : Model_ComputeOp<"sum_exp",
    (ins Model_Float:$logits, Model_Float:$max), (ins Int64Attr:$valid_vocab)> {
  let summary = "Sum of exponentials of each token's logits";
  let description = [{
    Computes `sum[s,b] = sum over v < valid_vocab of exp(logits - max[s,b])`.

    Constraints: vocab_c1, space_c1 to space_c3.

    Factors: `s`, `b` parallel, `v` a sum; a rank needs its origin of `v`.
    Work: no counted flops.

    Example:
    ```mlir
    %sum = model.sum_exp %logits, %max in loss {valid_vocab = 60 : i64}
        : (tensor<8x1x64xf32>, tensor<8x1xf32>) -> tensor<8x1xf32>
    ```
  }];
  let results = (outs Model_Float:$sum);
}

def Model_TargetLogitOp : Model_ComputeOp<"target_logit",
    (ins Model_Float:$logits, Model_Index:$labels), (ins)> {
  let summary = "Logit of each token's label";
  let description = [{
    Computes `target[s,b] = logits[s,b,labels[s,b]]`.

    Constraints: space_c1 to space_c3.

    Factors: `s`, `b` parallel; `v` a sum: 0 where the label lies on another
    rank, so a rank needs its origin of `v`.
    Work: no counted flops.

    Example:
    ```mlir
    %target = model.target_logit %logits, %labels in loss
        : (tensor<8x1x64xf32>, tensor<8x1xi32>) -> tensor<8x1xf32>
    ```
  }];
  let results = (outs Model_Float:$target);
}

def Model_TokenLossOp : Model_ComputeOp<"token_loss",
    (ins Model_Float:$max, Model_Float:$sum, Model_Float:$target),
    (ins F64Attr:$scale)> {
  let summary = "Scaled sum of the tokens' cross entropy";
  let description = [{
    Computes `loss = scale * sum over s,b of (log(sum) + max - target)`. `scale`
    is 1 over the tokens of a step once a plan is applied, 1 before.

    Constraints: space_c1 to space_c3.

    Factors: `s`, `b` a sum.
    Work: no counted flops.

    Example:
    ```mlir
    %loss = model.token_loss %max, %sum, %target in loss {scale = 1.0 : f64}
        : (tensor<8x1xf32>, tensor<8x1xf32>, tensor<8x1xf32>) -> tensor<f32>
    ```
  }];
  let results = (outs Model_Float:$loss);
}

def Model_SoftmaxGradOp : Model_ComputeOp<"softmax_grad",
    (ins Model_Float:$logits, Model_Float:$max, Model_Float:$sum,
         Model_Index:$labels),
    (ins F64Attr:$scale, Int64Attr:$valid_vocab)> {
  let summary = "Gradient of the loss with respect to the logits";
  let description = [{
    Computes `dlogits = scale * (exp(logits - max) / sum - onehot(labels))`, 0
    in columns from `valid_vocab` on: the gradient of `token_loss` with respect
    to the logits through all of max, sum and target.

    Constraints: vocab_c1, space_c1 to space_c3.

    Factors: all parallel; a rank needs its origin of `v`.
    Work: no counted flops.

    Example:
    ```mlir
    %dlogits = model.softmax_grad %logits, %max, %sum, %labels in loss
        {scale = 1.0 : f64, valid_vocab = 60 : i64}
        : (tensor<8x1x64xf32>, tensor<8x1xf32>, tensor<8x1xf32>,
           tensor<8x1xi32>) -> tensor<8x1x64xf32>
    ```
  }];
  let results = (outs Model_Float:$dlogits);
}

#endif // SHARDWRIGHT_DIALECTS_MODEL_IR_MODELVOCABULARYOPS
