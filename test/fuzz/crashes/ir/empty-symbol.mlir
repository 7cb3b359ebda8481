
// launch_c1
rt.func @"" {
  // expected-error @below {{expected '@k to be a kernel of the module, but -> []
}
