//===- ModelDialect.td - The model dialect -----------------*- tablegen -*-===//
#ifndef SHARDWRIGHT_DIALECTS_MODEL_IR_MODELDIALECT
#define SHARDWRIGHT_DIALECTS_MODEL_IR_MODELDIALECT

include "mlir/IR/OpBase.td"

def Model_Dialect : Dialect {
  let name = "model";
  let cppNamespace = "::shardwright::model";
  let summary = "One training step of a model on one imaginary device";
  let description = [{
    Models one training step as straight-line tensor code, one function per
    kind of layer, as if a single device of unlimited memory ran it. It leaves
    out where anything runs, how it is sharded, in which order microbatches go
    and where values lie in memory.

    Created by the importers (`compiler/Import`) and extended by
    `sw-differentiate`. Consumed by `sw-extract-program` (the cost model reads
    its iteration spaces) and by the passes that apply a plan; its compute ops
    stay in use, at local shapes, until `sw-spmd-to-rt`.

    Every compute op names the dims of its tensors by letters. One letter has
    one role in the whole project: `b` batch, `s` sequence, `t` sequence
    attended to, `h` hidden width, `n` key/value heads, `g` query heads per
    key/value head, `d` width of a head, `f` feed-forward width, `v`
    vocabulary, `p` rows of a position table, `e` elements of a flat bucket.
    From the letters follows the iteration space, and from that everything
    else: work, legal shardings, local shapes and collectives.

    Constraints that every compute op shares (encodings of types do not count):
    * (space_c1) letters are known, and none stands twice in one tensor.
    * (space_c2) a tensor has one dim per letter.
    * (space_c3) dims with one letter have one size.

    A module carries the discardable attribute `model.program`, a dictionary
    with `name`, `family`, `sequence`, `vocab`, `layers`, `heads`, `kv_heads`,
    `head_dim`, `hidden` and `ffn`.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
}

#endif // SHARDWRIGHT_DIALECTS_MODEL_IR_MODELDIALECT
