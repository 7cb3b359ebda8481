//===- Operations.h - Storage, failures and prices of a cluster -*- C++ -*-===//
#ifndef SHARDWRIGHT_COST_MODEL_HARDWARE_OPERATIONS_H
#define SHARDWRIGHT_COST_MODEL_HARDWARE_OPERATIONS_H

#include "cost_model/Units.h"

#include <string>

namespace shardwright::cost {

/// What a cluster file may say beside the machine: keys `storage`, `failures`
/// and `price`, each optional. 0: not said.
struct Operations {
  BytesPerSecond storageWrite; ///< of the shared file system, all clients
  BytesPerSecond nodeWrite;    ///< of a node into its own memory or disk
  double nodeLossShare = 0;    ///< of failures that lose what a node holds
  double failuresPerDeviceDay = 0;
  Seconds restart;             ///< from a failure to the first step, no reading
  double pricePerDeviceHour = 0;
  std::string currency;
  std::string storageSource, failureSource, priceSource;
  bool operator==(const Operations &) const = default;
};

} // namespace shardwright::cost

#endif // SHARDWRIGHT_COST_MODEL_HARDWARE_OPERATIONS_H
