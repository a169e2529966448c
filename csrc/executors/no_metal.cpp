// In builds without Metal.
#include "device_failure.h"
#include "metal.h"

namespace ferrule::metal {

std::unique_ptr<Executor> make_executor(const std::string&, std::span<const std::span<const std::byte>>) {
    throw DeviceFailure("this build of ferrule has no Metal backend");
}

Backend backend() {
    return Backend::none;
}

}  // namespace ferrule::metal
