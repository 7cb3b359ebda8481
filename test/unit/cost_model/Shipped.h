//===- Shipped.h - Clusters and profiles that come along --------*- C++ -*-===//
#ifndef SHARDWRIGHT_TEST_UNIT_COST_MODEL_SHIPPED_H
#define SHARDWRIGHT_TEST_UNIT_COST_MODEL_SHIPPED_H

#include "cost_model/hardware/Profile.h"

#include <catch2/catch.hpp>

namespace shardwright::test {

inline cost::Hardware shipped(std::string_view name) {
  const char *text = cost::shippedHardware(name);
  REQUIRE(text != nullptr);
  cost::Hardware hardware;
  cost::Failure failure;
  const bool read = cost::readHardware(text, name, hardware, failure);
  for (const std::string &message : failure.messages)
    UNSCOPED_INFO(message);
  REQUIRE(read);
  return hardware;
}

inline cost::Profile profileOf(std::string_view name) {
  cost::Profile profile;
  cost::Failure failure;
  REQUIRE(cost::readProfile(cost::shippedProfile(name), name, profile, failure));
  return profile;
}

} // namespace shardwright::test

#endif // SHARDWRIGHT_TEST_UNIT_COST_MODEL_SHIPPED_H
