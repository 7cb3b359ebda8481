//===- SignedInteger.td - i64 attribute read as int64_t ----*- tablegen -*-===//
#ifndef SHARDWRIGHT_DIALECTS_SIGNEDINTEGER
#define SHARDWRIGHT_DIALECTS_SIGNEDINTEGER

include "mlir/IR/OpBase.td"

// As I64Attr, whose accessor returns an uint64_t, in which a dim of -1 would
// be a large number.
def Int64Attr : TypedSignlessIntegerAttrBase<
    I64, "int64_t", "64-bit signless integer attribute"> {
  let convertFromStorage = "$_self.getInt()";
}

#endif // SHARDWRIGHT_DIALECTS_SIGNEDINTEGER
