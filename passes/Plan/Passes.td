//===- Passes.td - Passes of passes/Plan -----------*- tablegen -*-===//
#ifndef SHARDWRIGHT_PASSES_PLAN_PASSES
#define SHARDWRIGHT_PASSES_PLAN_PASSES

include "passes/Phase/PhasePass.td"

def ApplyPlanPass : PhasePass<"sw-apply-plan", ["Differentiated"]> {
  let summary = "Attaches a plan to a differentiated program";
  let description = [{
    Input contract: phase `differentiated`. The plan is the file that the option
    `plan` names, else the text in the module attribute `plan.text`.
    Output contract: phase `planned`. Only the functions of kinds and policies
    that a stage of the plan uses are left. Shapes are global: batch dims have
    the sequences of one microbatch over all data ranks, vocabulary dims are
    padded; element types are those of the plan's dtypes. Every tensor type
    carries `#plan.sh`, every model op and parameter `plan.axes`. `scale` of
    the loss is one over the tokens of a step. The module carries `plan.mesh`,
    `plan.text` and `plan.program` (canonical program.json), and one
    `spmd.stage` per stage.

    A plan that breaks a rule is an error that lists all broken rules. What is
    sharded how is decided by cost_model alone (`planVariant`).

    ```mlir
    %y = model.contract %x, %w in mlp {spec = "sbh,fh->sbf"}
        : (tensor<8x1x16xf32>, tensor<32x16xf32>) -> tensor<8x1x32xf32>
    // dp = 2, tp = 2, one sequence per microbatch:
    %y = model.contract %x, %w in mlp
        {spec = "sbh,fh->sbf", plan.axes = {b = ["dp"], f = ["tp"]}}
        : (tensor<8x2x16xf32, #plan.sh<dims=[[],["dp"],[]]>>,
           tensor<32x16xf32, #plan.sh<dims=[["tp"],[]]>>)
        -> tensor<8x2x32xf32, #plan.sh<dims=[[],["dp"],["tp"]]>>
    ```
  }];
  let options = [Option<"plan", "plan", "std::string", "",
                        "Path of plan.json">];
  let dependentDialects = ["::shardwright::plan::PlanDialect",
                           "::shardwright::spmd::SpmdDialect"];
}

def ExtractProgramPass : PhasePass<"sw-extract-program", ["Differentiated"]> {
  let summary = "Prints the program that the cost model reads, as JSON";
  let description = [{
    Input contract: phase `differentiated`. The module stays as it is; its
    program.json goes to stdout, before the module if that goes there too.

    The program holds every function's ops with their iteration spaces, its
    values, the parameters and the stack: all that is known of a model outside
    the IR. Equal modules give equal bytes.
  }];
}

#endif // SHARDWRIGHT_PASSES_PLAN_PASSES
