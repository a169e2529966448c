// A shared object of translated kernels, loaded once per set of function constants.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "kernel_abi.h"

namespace metal_host {

class LoadedLibrary {
  public:
    // A copy of the object at `path` whose function constants have the given values; others are undefined. Copies live
    // as long as the process. Throws std::runtime_error.
    static const LoadedLibrary& load(const std::string& path, const std::map<uint32_t, double>& constants);

    struct Entry {
        const Kernel* kernel;
        const Library* file;  // whose function constants the kernel may use
    };

    // Throws std::runtime_error where there is none.
    const Entry& find(const std::string& kernel) const;
    const std::map<std::string, Entry>& kernels() const { return kernels_; }

  private:
    LoadedLibrary(const std::string& path, const std::map<uint32_t, double>& constants);

    std::map<std::string, Entry> kernels_;
};

}  // namespace metal_host
