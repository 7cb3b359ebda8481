//===- ModelVocabularyOps.td - Embeddings and the loss ------*- tablegen -*-===//
#ifndef SHARDWRIGHT_DIALECTS_MODEL_IR_MODELVOCABULARYOPS
#define SHARDWRIGHT_DIALECTS_MODEL_IR_MODELVOCABULARYOPS

include "dialects/Model/IR/ModelBase.td"

def Model_EmbeddingOp : Model_ForwardOp<"embedding",
    (ins Model_Index:$ids, Model_Float:$table), (ins)> {
  let summary = "Looks up rows of a table";
  let results = (outs Model_Float:$output);
}

def Model_EmbeddingGradOp : Model_ComputeOp<"embedding_grad",
    (ins Model_Index:$ids, Model_Float:$dy), (ins)> {
  let summary = "Gradient of embedding with respect to its table";
  let results = (outs Model_Float:$dtable);
}

def Model_AddPositionsOp : Model_ForwardOp<"add_positions",
    (ins Model_Float:$input, Model_Float:$table), (ins)> {
  let summary = "Adds learned positions";
  let results = (outs Model_Float:$output);
}

def Model_AddPositionsGradOp : Model_ComputeOp<"add_positions_grad",
    (ins Model_Float:$dy), (ins)> {
  let summary = "Gradient of add_positions with respect to its table";
  let results = (outs Model_Float:$dtable);
}

def Model_MaxLogitOp : Model_ComputeOp<"max_logit",
    (ins Model_Float:$logits), (ins Int64Attr:$valid_vocab)> {
  let summary = "Largest logit of each token";
  let results = (outs Model_Float:$max);
}

def Model_SumExpOp : Model_ComputeOp<"sum_exp",
    (ins Model_Float:$logits, Model_Float:$max), (ins Int64Attr:$valid_vocab)> {
  let summary = "Sum of exponentials of each token's logits";
  let results = (outs Model_Float:$sum);
}

def Model_TargetLogitOp : Model_ComputeOp<"target_logit",
    (ins Model_Float:$logits, Model_Index:$labels), (ins)> {
  let summary = "Logit of each token's label";
  let results = (outs Model_Float:$target);
}

def Model_TokenLossOp : Model_ComputeOp<"token_loss",
    (ins Model_Float:$max, Model_Float:$sum, Model_Float:$target),
    (ins F64Attr:$scale)> {
  let summary = "Scaled sum of the tokens' cross entropy";
  let results = (outs Model_Float:$loss);
}

def Model_SoftmaxGradOp : Model_ComputeOp<"softmax_grad",
    (ins Model_Float:$logits, Model_Float:$max, Model_Float:$sum,
         Model_Index:$labels),
    (ins F64Attr:$scale, Int64Attr:$valid_vocab)> {
  let summary = "Gradient of the loss with respect to the logits";
  let results = (outs Model_Float:$dlogits);
}

#endif // SHARDWRIGHT_DIALECTS_MODEL_IR_MODELVOCABULARYOPS
