//===- Passes.td - Passes of passes/Differentiate -----------*- tablegen -*-===//
#ifndef SHARDWRIGHT_PASSES_DIFFERENTIATE_PASSES
#define SHARDWRIGHT_PASSES_DIFFERENTIATE_PASSES

include "passes/Phase/PhasePass.td"

def DifferentiatePass : PhasePass<"sw-differentiate", ["Imported"]> {
  let summary = "Replaces each kind by its forward and gradient functions";
  let description = [{
    Input contract: phase `imported` (one `model.kind` per kind of layer, with
    the forward pass). Output contract: phase `differentiated`.

    A kind `@k` becomes, per recompute policy `p` (none, selective and full for
    a kind that takes and gives a stream, else none alone):
    * `@k.p.forward`: the forward pass, which also returns what the policy
      saves (`#model.res<saved, i>`, in program order);
    * `@k.p.data_grad`: the gradient of the stream that enters, from that of the
      stream that leaves (or from the loss). Forward ops whose results the
      policy does not save stand again at its head. It returns as
      `#model.res<kept, i>` what the weight gradient needs of its values. Absent
      if the kind takes no stream;
    * `@k.p.weight_grad`: every backward op that no data gradient needs; returns
      the gradient of each parameter, in order.

    `x` (stream_in) and `dy` (stream_grad) stay alive until the weight gradient
    has run. An argument that a function does not use is left out; the others
    stand in the order stream_grad, stream_in, saved, kept, parameter, tokens,
    labels. What is saved and what recomputed decides cost_model/program/SavedSet.

    ```mlir
    model.kind @dense(%x: tensor<8x1x4xf32> {model.arg = #model.arg<stream_in, 0>},
                      %w: tensor<4xf32> {model.arg = #model.arg<parameter, 0>})
        -> (tensor<8x1x4xf32> {model.res = #model.res<stream_out, 0>}) {
      %y, %r = model.rms_norm %x, %w in stream label "norm" {...} : ...
      model.return %y : tensor<8x1x4xf32>
    }
    ```
    gives `@dense.none.forward(x, w) -> (y, r)`,
    `@dense.none.data_grad(dy, x, r, w) -> (dx)` and
    `@dense.none.weight_grad(dy, x, r) -> (dw)`.
  }];
  let dependentDialects = ["::shardwright::model::ModelDialect"];
}

#endif // SHARDWRIGHT_PASSES_DIFFERENTIATE_PASSES
