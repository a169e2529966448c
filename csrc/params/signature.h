// How an op's parameter struct and operands are described to everyone who needs them: the CPU and Metal
// executors, the plan validator and, through the module, Python. An op's header states each fact once.
#pragma once

#ifndef __METAL_VERSION__
#include <cstddef>
#include <cstdint>
#include <span>

namespace ferrule {

enum class FieldType : uint8_t { u32, f32 };

struct ParamField {
    const char* name;
    FieldType type;
    uint32_t offset;
};

enum class Access : uint8_t { read, write, read_write };

struct OperandInfo {
    const char* name;
    Access access;
    bool optional = false;  // an absent optional operand is a null pointer
};

struct OpSignature {
    const char* op;
    uint32_t params_bytes;
    std::span<const ParamField> fields;
    std::span<const OperandInfo> operands;
};

}  // namespace ferrule
#endif
