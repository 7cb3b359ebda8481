// RUN: shardwright-opt %s --sw-extract-program -split-input-file -verify-diagnostics -o /dev/null

// What a program needs beyond the contract of its phase.

// expected-error @below {{expected an integer under 'vocab' of 'model.program'}}
module attributes {
  sw.phase = "differentiated",
  model.program = {name = "m", family = "f", sequence = 5, vocab = "many", layers = 6,
                   heads = 4, kv_heads = 2, head_dim = 3, hidden = 7, ffn = 12}} {
  model.stack []
}

// -----

// expected-error @below {{expected a model.stack with runs}}
module attributes {
  sw.phase = "differentiated",
  model.program = {name = "m", family = "f", sequence = 5, vocab = 13, layers = 6,
                   heads = 4, kv_heads = 2, head_dim = 3, hidden = 7, ffn = 12}} {
  model.stack []
}
