#include "passes/Passes.h"

#include "passes/Differentiate/Passes.h"
#include "passes/Lower/Passes.h"
#include "passes/Partition/Passes.h"
#include "passes/Plan/Passes.h"
#include "passes/Schedule/Passes.h"
#include "passes/Verify/Passes.h"

void shardwright::registerPasses() {
  registerDifferentiatePasses();
  registerPlanPasses();
  registerPartitionPasses();
  registerSchedulePasses();
  registerLowerPasses();
  registerVerifyPasses();
}
