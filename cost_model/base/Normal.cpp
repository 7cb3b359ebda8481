#include "cost_model/base/Normal.h"

#include <cmath>

namespace shardwright::cost {

double normalAbove(double tail) {
  const double t = std::sqrt(-2 * std::log(tail));
  return t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                 (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
}

} // namespace shardwright::cost
