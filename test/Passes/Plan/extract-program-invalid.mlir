// RUN: shardwright-opt %s --sw-extract-program -split-input-file -verify-diagnostics -o /dev/null

// expected-error @below {{expected attribute 'model.program' on the module, which the importer sets}}
module {}

// -----

// expected-error @below {{expected an integer under 'vocab' of 'model.program'}}
module attributes {model.program = {name = "m", family = "f", sequence = 5, vocab = "many", layers = 6,
                   heads = 4, kv_heads = 2, head_dim = 3, hidden = 7, ffn = 12}} {}

// -----

module attributes {model.program = {name = "m", family = "f", sequence = 5, vocab = 13, layers = 6,
                   heads = 4, kv_heads = 2, head_dim = 3, hidden = 7, ffn = 12}} {
  // expected-error @below {{expected attributes 'kind', 'part' and 'policy', which sw-differentiate sets}}
  model.kind @layer(%x: tensor<5x1x7xf32> {model.arg = #model.arg<stream_in, 0>})
      -> (tensor<5x1x7xf32> {model.res = #model.res<stream_out, 0>}) {
    model.return %x : tensor<5x1x7xf32>
  }
}

// -----

// expected-error @below {{expected a model.stack with runs}}
module attributes {model.program = {name = "m", family = "f", sequence = 5, vocab = 13, layers = 6,
                   heads = 4, kv_heads = 2, head_dim = 3, hidden = 7, ffn = 12}} {}
