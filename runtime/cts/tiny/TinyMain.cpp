//===- TinyMain.cpp - The tiny program as an executable -------------------===//
#include "runtime/cts/tiny/TinyProgram.h"

#include <cstdio>

/// usage: shardwright_rt_tiny PLAN [flags of a compiled program]
int main(int argc, char **argv) {
  shardwright::runtime::cts::TinyPlan plan;
  if (argc < 2 || !shardwright::runtime::cts::parseTinyPlan(argv[1], plan)) {
    std::fprintf(stderr,
                 "usage: %s dp=2,tp=2,pp=2,vp=2,zero=1,micro=1,tied,"
                 "1f1b,f32,device,fault=NAME [flags]\n",
                 argv[0]);
    return 5;
  }
  argv[1] = argv[0];
  return sw_rt_main(&shardwright::runtime::cts::tinyProgram(plan), argc - 1,
                    argv + 1);
}
