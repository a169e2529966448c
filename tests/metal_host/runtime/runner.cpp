// Runs single kernels for tests, through ctypes.
//
// Every function returns 0, or 1 and what went wrong in `error`. `library` is the path of a shared object of translated
// kernels.
#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "../../../csrc/params/metal_kernels.h"
#include "executor.h"
#include "library.h"

namespace {

using namespace metal_host;

struct Buffer {
    void* data;
    uint64_t bytes;
};

template <class Run>
int report(char* error, size_t error_bytes, Run run) {
    std::string message;
    try {
        message = run();
    } catch (const std::exception& exception) {
        message = exception.what();
    }
    message.copy(error, error_bytes - 1);
    error[std::min(message.size(), error_bytes - 1)] = 0;
    return message.empty() ? 0 : 1;
}

const ferrule::MetalKernel& table_entry(const std::string& name) {
    const auto& table = ferrule::metal_kernels();
    const auto found =
        std::find_if(table.begin(), table.end(), [&](const auto& kernel) { return kernel.name == name; });
    if (found == table.end()) throw std::runtime_error("the kernel table has no " + name);
    return *found;
}

double field_value(const ferrule::ParamField& field, const char* params) {
    if (field.type == ferrule::FieldType::f32) {
        float value;
        std::memcpy(&value, params + field.offset, sizeof value);
        return value;
    }
    uint32_t value;
    std::memcpy(&value, params + field.offset, sizeof value);
    return value;
}

// Values of a file's function constants by their names, see csrc/params/metal_dispatch.h. Those that belong to other
// kernels of the file stay undefined.
std::map<uint32_t, double> constant_values(const Library& file, const ferrule::OpSignature& signature,
                                           std::span<const Buffer> operands, const char* params) {
    std::map<uint32_t, double> values;
    for (const FunctionConstant& constant : std::span(file.constants, file.n_constants)) {
        const std::string name = constant.name;
        for (size_t i = 0; i < signature.operands.size(); ++i) {
            if (name == std::string("has_") + signature.operands[i].name) {
                values[constant.index] = operands[i].data != nullptr;
            }
        }
        for (const ferrule::ParamField& field : signature.fields) {
            if (name == std::string("fc_") + field.name) values[constant.index] = field_value(field, params);
        }
    }
    return values;
}

}  // namespace

extern "C" {

// The names of all kernels, a line each, into `names`.
[[gnu::visibility("default")]] int metal_host_kernels(const char* library, char* names, size_t names_bytes, char* error,
                                                      size_t error_bytes) {
    return report(error, error_bytes, [&] {
        std::string lines;
        for (const auto& [name, entry] : LoadedLibrary::load(library, {}).kernels()) lines += name + "\n";
        if (lines.size() >= names_bytes) throw std::runtime_error("too many kernels");
        std::strcpy(names, lines.c_str());
        return std::string();
    });
}

// The names and ops of the kernel table, "name op" a line each, into `names`.
[[gnu::visibility("default")]] int metal_host_table(char* names, size_t names_bytes, char* error, size_t error_bytes) {
    return report(error, error_bytes, [&] {
        std::string lines;
        for (const ferrule::MetalKernel& kernel : ferrule::metal_kernels()) {
            lines += kernel.name + " " + kernel.signature->op + "\n";
        }
        if (lines.size() >= names_bytes) throw std::runtime_error("too many kernels");
        std::strcpy(names, lines.c_str());
        return std::string();
    });
}

// A kernel of the table with its signature's operands (null where absent), the memory that addresses in them lead to,
// and the table's geometry.
[[gnu::visibility("default")]] int metal_host_run(const char* library, const char* kernel, const Buffer* operands,
                                                  size_t n_operands, const Buffer* reachable, size_t n_reachable,
                                                  const char* params, uint32_t rows, uint32_t sequences, uint32_t seed,
                                                  int checked, char* error, size_t error_bytes) {
    return report(error, error_bytes, [&] {
        const ferrule::MetalKernel& entry = table_entry(kernel);
        const ferrule::OpSignature& signature = *entry.signature;
        if (n_operands != signature.operands.size()) throw std::runtime_error("wrong number of operands");
        const Library& file = *LoadedLibrary::load(library, {}).find(kernel).file;
        const auto constants = constant_values(file, signature, {operands, n_operands}, params);

        const ferrule::LaunchSizes sizes{rows, sequences};
        const ferrule::MetalDispatch geometry = entry.dispatch(params, sizes);
        Arguments arguments{};
        for (size_t i = 0; i < n_operands; ++i) arguments.buffers[i] = {operands[i].data, operands[i].bytes};
        arguments.buffers[ferrule::params_buffer] = {const_cast<char*>(params), signature.params_bytes};
        arguments.buffers[ferrule::sizes_buffer] = {const_cast<ferrule::LaunchSizes*>(&sizes), sizeof sizes};
        arguments.shared[0].bytes = geometry.threadgroup_bytes;
        std::vector<Binding> bindings;
        for (const Buffer& buffer : std::span(reachable, n_reachable)) bindings.push_back({buffer.data, buffer.bytes});
        return dispatch(*LoadedLibrary::load(library, constants).find(kernel).kernel, arguments,
                        {geometry.x, geometry.y, geometry.z}, {geometry.threads, 1, 1},
                        {.seed = seed, .checked = checked != 0, .reachable = bindings});
    });
}

// Any kernel, with the given buffers from index 0.
[[gnu::visibility("default")]] int metal_host_dispatch(const char* library, const char* kernel, const Buffer* buffers,
                                                       size_t n_buffers, const uint32_t* threadgroups,
                                                       const uint32_t* threads, uint64_t shared_bytes, uint32_t seed,
                                                       int checked, char* error, size_t error_bytes) {
    return report(error, error_bytes, [&] {
        Arguments arguments{};
        for (size_t i = 0; i < n_buffers; ++i) arguments.buffers[i] = {buffers[i].data, buffers[i].bytes};
        arguments.shared[0].bytes = shared_bytes;
        return dispatch(*LoadedLibrary::load(library, {}).find(kernel).kernel, arguments,
                        {threadgroups[0], threadgroups[1], threadgroups[2]}, {threads[0], threads[1], threads[2]},
                        {.seed = seed, .checked = checked != 0});
    });
}

}  // extern "C"
