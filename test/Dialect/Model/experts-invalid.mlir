// RUN: shardwright-opt %s -split-input-file -verify-diagnostics

// route_c1
model.kind @more_choices_than_experts(%l: tensor<8x1x2xf32>) {
  // expected-error @below {{expected at most as many choices as experts (2), but got 3}}
  %w, %e, %load = model.route %l in router {score = #model.score<softmax>, normalize = true, scale = 1.0 : f64, aux_loss = 0.0 : f64} : (tensor<8x1x2xf32>) -> (tensor<8x1x3xf32>, tensor<8x1x3xi32>, tensor<1x2xf32>)
  model.return
}

// -----

// route_c2
model.kind @groups_that_do_not_divide(%l: tensor<8x1x6xf32>) {
  // expected-error @below {{expected groups to divide the experts (6) and top_groups to be from 1 to groups, but got 4 and 1}}
  %w, %e, %load = model.route %l in router {score = #model.score<softmax>, normalize = true, scale = 1.0 : f64, aux_loss = 0.0 : f64, groups = 4 : i64} : (tensor<8x1x6xf32>) -> (tensor<8x1x2xf32>, tensor<8x1x2xi32>, tensor<1x6xf32>)
  model.return
}

// -----

// route_grad_c1
model.kind @auxiliary_loss_without_load(%d: tensor<8x1x2xf32>, %l: tensor<8x1x6xf32>, %e: tensor<8x1x2xi32>) {
  // expected-error @below {{expected load exactly if aux_loss is not 0, but got aux_loss =}}
  %dl = model.route_grad %d, %l, %e in router {score = #model.score<softmax>, normalize = true, scale = 1.0 : f64, aux_loss = 1.0e-2 : f64} : (tensor<8x1x2xf32>, tensor<8x1x6xf32>, tensor<8x1x2xi32>) -> tensor<8x1x6xf32>
  model.return
}

// -----

// rows_c1
model.kind @a_row_is_missing(%x: tensor<8x1x4xf32>, %e: tensor<8x1x2xi32>) {
  // expected-error @below {{expected one row for each choice (16), but got 15}}
  %r = model.dispatch %x, %e in router : (tensor<8x1x4xf32>, tensor<8x1x2xi32>) -> tensor<15x4xf32>
  model.return
}

// -----

// permute_rows_c1
model.kind @no_rows_to_permute(%x: tensor<4x16xf32>, %o: tensor<16xi32>) {
  // expected-error @below {{expected letters to begin with 'c', but got "hc"}}
  %r = model.permute_rows %x, %o in experts {letters = "hc"} : (tensor<4x16xf32>, tensor<16xi32>) -> tensor<4x16xf32>
  model.return
}

// -----

// grouped_contract_c1
model.kind @no_experts(%x: tensor<16x4xf32>, %w: tensor<5x4xf32>, %e: tensor<16xi32>) {
  // expected-error @below {{expected 'c' in lhs and 'x' in rhs or result, but got "ch,mh->cm"}}
  %r = model.grouped_contract %x, %w, %e in experts {spec = "ch,mh->cm"} : (tensor<16x4xf32>, tensor<5x4xf32>, tensor<16xi32>) -> tensor<16x5xf32>
  model.return
}

// -----

// grouped_contract_c2
model.kind @a_letter_alone(%x: tensor<16x4xf32>, %w: tensor<6x5xf32>, %e: tensor<16xi32>) {
  // expected-error @below {{expected letter 'h' to stand in two of lhs, rhs and result, but got "ch,xm->cm"}}
  %r = model.grouped_contract %x, %w, %e in experts {spec = "ch,xm->cm"} : (tensor<16x4xf32>, tensor<6x5xf32>, tensor<16xi32>) -> tensor<16x5xf32>
  model.return
}

// -----

// grouped_contract_c3
model.kind @no_arrow(%x: tensor<16x4xf32>, %w: tensor<6x5x4xf32>, %e: tensor<16xi32>) {
  // expected-error @below {{expected spec to have the form "letters,letters->letters", but got "ch,xmh"}}
  %r = model.grouped_contract %x, %w, %e in experts {spec = "ch,xmh"} : (tensor<16x4xf32>, tensor<6x5x4xf32>, tensor<16xi32>) -> tensor<16x5xf32>
  model.return
}

// -----

// expert_bias_c1
model.kind @bias_of_no_rows(%x: tensor<8x4xf32>, %b: tensor<6x4xf32>, %e: tensor<8xi32>) {
  // expected-error @below {{expected letters to be 'c' and one more, but got "sm"}}
  %r = model.expert_bias %x, %b, %e in experts {letters = "sm"} : (tensor<8x4xf32>, tensor<6x4xf32>, tensor<8xi32>) -> tensor<8x4xf32>
  model.return
}

// -----

// sink_attention_c2
model.kind @window_of_nothing(%q: tensor<8x1x2x3x4xf32>, %k: tensor<8x1x2x4xf32>, %s: tensor<2x3xf32>) {
  // expected-error @below {{expected window to be at least 1, but got 0}}
  %o, %l = model.sink_attention %q, %k, %k, %s in attention {scale = 5.0e-1 : f64, window = 0 : i64} : (tensor<8x1x2x3x4xf32>, tensor<8x1x2x4xf32>, tensor<8x1x2x4xf32>, tensor<2x3xf32>) -> (tensor<8x1x2x3x4xf32>, tensor<8x1x2x3xf32>)
  model.return
}

// -----

// clip_c1
model.kind @limit_of_zero(%k: tensor<8x1x2x4xf32>) {
  // expected-error @below {{expected limit to be positive, but got 0}}
  %c = model.clip %k in attention {letters = "sbnd", limit = 0.0 : f64} : (tensor<8x1x2x4xf32>) -> tensor<8x1x2x4xf32>
  model.return
}
